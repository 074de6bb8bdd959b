// The windowed inverse against the dense matrix it approximates.
#include "enhance/local_inverse.h"

#include <boost/test/unit_test.hpp>

#include "metrics/fields.h"
#include "sky/degrade.h"

using namespace cirrus;
using namespace cirrus::enhance;

namespace {

constexpr std::int64_t kFactor = 4;
constexpr double kSigma = 3.8;

struct Problem {
  at::Tensor variance, noise, dense;
};

/// K diag(v) K^T + diag(n), column by column with the degradation operator; v spans six decades, as bright maps do.
Problem problem(std::int64_t h, std::int64_t w) {
  Problem p;
  const sky::Degradation k(h * kFactor, w * kFactor, kSigma, kFactor);
  p.variance =
      (2.3 *
       sky::Degradation(h * kFactor, w * kFactor, 6, 1).apply(30 * tests::white_noise({h * kFactor, w * kFactor}, 5)))
          .exp();
  p.noise = at::full({h, w}, 1e-5 * k.apply(p.variance).mean().item<double>(), at::kDouble);
  p.dense = at::zeros({h * w, h * w}, at::kDouble);
  for (std::int64_t i = 0; i < h * w; ++i) {
    at::Tensor unit = at::zeros({h, w}, at::kDouble);
    unit.view(-1)[i] = 1;
    p.dense[i] = (k.apply(p.variance * k.adjoint(unit)) + p.noise * unit).view(-1);
  }
  return p;
}

/// Matrix of apply().
at::Tensor dense_inverse(const LocalInverse& inverse, std::int64_t h, std::int64_t w) {
  at::Tensor m = at::zeros({h * w, h * w}, at::kDouble);
  for (std::int64_t i = 0; i < h * w; ++i) {
    at::Tensor unit = at::zeros({h, w}, at::kDouble);
    unit.view(-1)[i] = 1;
    m[i] = inverse.apply(unit).view(-1);
  }
  return m;
}

/// Largest over smallest eigenvalue of inverse * matrix.
double condition(const at::Tensor& inverse, const at::Tensor& matrix) {
  const at::Tensor l = at::linalg_cholesky(matrix), e = at::linalg_eigvalsh(at::matmul(l.t(), at::matmul(inverse, l)));
  return (e.max() / e.min()).item<double>();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(local_inverse)

BOOST_AUTO_TEST_CASE(it_is_symmetric_and_positive) {
  const Problem p = problem(22, 17);
  LocalInverse inverse(22, 17, kFactor, kSigma);
  inverse.factorize(p.variance, p.noise);
  const at::Tensor m = dense_inverse(inverse, 22, 17), s = p.dense.diagonal().sqrt(), scaled = m * s.unsqueeze(1) * s;
  BOOST_TEST((scaled - scaled.t()).abs().max().item<double>() < 1e-4 * scaled.abs().max().item<double>());
  BOOST_TEST(at::linalg_eigvalsh((scaled + scaled.t()) / 2).min().item<double>() > 0);
}

BOOST_AUTO_TEST_CASE(it_takes_the_condition_number_down_by_orders_of_magnitude) {
  const Problem p = problem(30, 26);
  LocalInverse inverse(30, 26, kFactor, kSigma);
  inverse.factorize(p.variance, p.noise);
  const at::Tensor m = dense_inverse(inverse, 30, 26);
  const double by_diagonal = condition(at::diag(1 / p.dense.diagonal()), p.dense),
               by_windows = condition((m + m.t()) / 2, p.dense);
  BOOST_TEST_MESSAGE("condition: " << by_diagonal << " with the diagonal, " << by_windows << " with windows");
  BOOST_TEST(by_diagonal > 1e4);
  BOOST_TEST(by_windows < 0.01 * by_diagonal);
}

BOOST_AUTO_TEST_CASE(one_window_is_the_inverse) {
  // 6 x 5 pixels fit into one window. The reflection at the map's border is not in the window's matrix, so the map is
  // dark there.
  Problem p = problem(6, 5);
  const sky::Degradation k(24, 20, 1.0, kFactor);
  p.variance = at::constant_pad_nd(p.variance.narrow(0, 8, 8).narrow(1, 8, 4), {8, 8, 8, 8});
  at::Tensor dense = at::zeros({30, 30}, at::kDouble);
  for (std::int64_t i = 0; i < 30; ++i) {
    at::Tensor unit = at::zeros({6, 5}, at::kDouble);
    unit.view(-1)[i] = 1;
    dense[i] = (k.apply(p.variance * k.adjoint(unit)) + p.noise * unit).view(-1);
  }
  LocalInverse inverse(6, 5, kFactor, 1.0);
  inverse.factorize(p.variance, p.noise);
  BOOST_TEST(condition(dense_inverse(inverse, 6, 5), dense) < 1.3);
}

BOOST_AUTO_TEST_SUITE_END()
