// Validation of a case, and the baselines by name.
#include "metrics/case.h"

#include <array>

#include "base/errors.h"
#include "metrics/baselines.h"
#include "metrics/map.h"
#include "sky/beam.h"

namespace cirrus::metrics {

double Case::kernel() const {
  return std::sqrt(std::max(beam_lr * beam_lr - beam_hr * beam_hr, 0.0)) / sky::kFwhmPerSigma;
}

Case checked(Case question) {
  question.truth = as_map(question.truth, "the truth");
  question.lr = as_map(question.lr, "the low-resolution map");
  const int64_t s = question.factor;
  if (s < 1 || question.truth.size(0) != s * question.lr.size(0) || question.truth.size(1) != s * question.lr.size(1))
    throw Error(ExitCode::bad_data,
                "a truth of " + size_text(question.truth) + " pixels is not " + std::to_string(s) +
                    " times the low-resolution map of " + size_text(question.lr),
                "give maps of one field, and their factor");
  for (const at::Tensor* map : {&question.truth, &question.lr}) {
    const int64_t bad = map->numel() - map->isfinite().sum().item<int64_t>();
    if (bad > 0)
      throw Error(ExitCode::bad_data,
                  (map == &question.truth ? "the truth holds " : "the low-resolution map holds ") +
                      std::to_string(bad) + " blank pixels",
                  "cut out a part without blanks: figures need every pixel");
  }
  return question;
}

std::span<const std::string_view> baseline_names() {
  static constexpr std::array<std::string_view, 4> kNames = {"bicubic", "lanczos", "spline", "wiener"};
  return kNames;
}

at::Tensor baseline(std::string_view name, const Case& question) {
  if (name == "bicubic") return bicubic(question.lr, question.factor);
  if (name == "lanczos") return lanczos3(question.lr, question.factor);
  if (name == "spline") return spline(question.lr, question.factor);
  if (name == "wiener")
    return wiener(question.lr, question.factor,
                  {.kernel = question.kernel(), .beam_hr = question.beam_hr, .noise = question.noise.value_or(0)});
  throw Error(ExitCode::usage, "no baseline is called " + std::string(name), "bicubic, lanczos, spline or wiener");
}

}  // namespace cirrus::metrics
