// The degradation operator as two banded matrices: vertical first when shrinking (fewer rows remain for the horizontal
// pass), horizontal first when expanding.
#include "sky/degrade.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <string>

#include "base/errors.h"

namespace cirrus::sky {
namespace {

std::int64_t checked(std::int64_t n, double sigma, std::int64_t factor) {
  if (factor < 1 || n < 1 || n % factor != 0)
    throw Error(ExitCode::bad_data,
                "an axis of " + std::to_string(n) + " pixels and a factor of " + std::to_string(factor),
                "crop the map to a multiple of the factor");
  if (!(sigma >= 0) || !std::isfinite(sigma))
    throw Error(ExitCode::bad_data, "a difference kernel of sigma " + std::to_string(sigma) + " pixels",
                "it is finite and not negative");
  return n;
}

void check_input(const at::Tensor& map, std::int64_t height, std::int64_t width, const char* what) {
  if (map.dim() < 2 || map.size(-2) != height || map.size(-1) != width)
    throw Error(ExitCode::bad_data, std::string(what) + " of another size than the operator's [" +
                                        std::to_string(height) + ", " + std::to_string(width) + "]");
  if (!map.device().is_cpu() || (map.scalar_type() != at::kFloat && map.scalar_type() != at::kDouble))
    throw Error(ExitCode::internal, std::string(what) + " is not a float32 or float64 CPU tensor");
}

at::Tensor sized_like(const at::Tensor& map, std::int64_t height, std::int64_t width) {
  auto sizes = map.sizes().vec();
  sizes[sizes.size() - 2] = height;
  sizes.back() = width;
  return at::empty(sizes, map.options().memory_format(at::MemoryFormat::Contiguous));
}

constexpr std::int64_t kGrain = 16;  // rows a thread takes at least: below that, starting threads costs more

/// out[b] = vertical * in[b]: [batch, cols, n] -> [batch, rows, n].
template <typename T>
void multiply_vertically(const BandedMatrix& vertical, const at::Tensor& in, const at::Tensor& out) {
  const std::int64_t n = in.size(-1), rows = vertical.rows(), cols = vertical.cols();
  const T* source = in.const_data_ptr<T>();
  T* target = out.data_ptr<T>();
  at::parallel_for(0, out.numel() / n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      vertical.row_of_product(i % rows, source + (i / rows) * cols * n, n, target + i * n);
  });
}

/// Each line of `in` times the matrix: [..., cols] -> [..., rows].
template <typename T>
void multiply_lines(const BandedMatrix& horizontal, const at::Tensor& in, const at::Tensor& out) {
  const std::int64_t rows = horizontal.rows(), cols = horizontal.cols();
  const T* source = in.const_data_ptr<T>();
  T* target = out.data_ptr<T>();
  at::parallel_for(0, in.numel() / cols, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) horizontal.times_line(source + i * cols, target + i * rows);
  });
}

template <typename T>
at::Tensor shrink(const BandedMatrix& rows, const BandedMatrix& columns, const at::Tensor& map) {
  const at::Tensor between = sized_like(map, rows.rows(), columns.cols()),
                   out = sized_like(map, rows.rows(), columns.rows());
  multiply_vertically<T>(rows, map, between);
  multiply_lines<T>(columns, between, out);
  return out;
}

template <typename T>
at::Tensor expand(const BandedMatrix& rows, const BandedMatrix& columns, const at::Tensor& map) {
  const at::Tensor between = sized_like(map, rows.cols(), columns.rows()),
                   out = sized_like(map, rows.rows(), columns.rows());
  multiply_lines<T>(columns, map, between);
  multiply_vertically<T>(rows, between, out);
  return out;
}

}  // namespace

Degradation::Degradation(std::int64_t height, std::int64_t width, double sigma, std::int64_t factor, Binning binning)
    : factor_(factor),
      sigma_(sigma),
      binning_(binning),
      rows_(BandedMatrix::blur_and_bin(checked(height, sigma, factor), sigma, factor,
                                       binning == Binning::mean ? 1.0 / static_cast<double>(factor) : 1.0)),
      columns_(BandedMatrix::blur_and_bin(checked(width, sigma, factor), sigma, factor,
                                          binning == Binning::mean ? 1.0 / static_cast<double>(factor) : 1.0)),
      rows_transposed_(rows_.transposed()),
      columns_transposed_(columns_.transposed()) {}

at::Tensor Degradation::apply(const at::Tensor& hr) const {
  check_input(hr, height(), width(), "a map to degrade");
  const at::Tensor map = hr.contiguous();
  return map.scalar_type() == at::kFloat ? shrink<float>(rows_, columns_, map) : shrink<double>(rows_, columns_, map);
}

at::Tensor Degradation::adjoint(const at::Tensor& lr) const {
  check_input(lr, rows_.rows(), columns_.rows(), "a low-resolution map");
  const at::Tensor map = lr.contiguous();
  return map.scalar_type() == at::kFloat ? expand<float>(rows_transposed_, columns_transposed_, map)
                                         : expand<double>(rows_transposed_, columns_transposed_, map);
}

at::Tensor Degradation::apply_masked(const at::Tensor& hr, const at::Tensor& valid, double least) const {
  const at::Tensor weight = valid.to(hr.scalar_type()).expand_as(hr);
  const double full = binning_ == Binning::mean ? 1.0 : static_cast<double>(factor_ * factor_);
  const at::Tensor share = apply(weight) / full;
  const at::Tensor sum = apply(at::where(weight > 0, hr * weight, at::zeros({}, hr.options())));
  return at::where(share >= least, sum / share, at::full({}, std::nan(""), hr.options()));
}

}  // namespace cirrus::sky
