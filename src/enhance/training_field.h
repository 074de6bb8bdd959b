// Training examples: a synthetic sky with known truth, what a telescope makes of it, and the residual the network must
// learn. Field i is a pure function of (seed, i): fields 2j and 2j + 1 share sky j, seen in block mode and in beam
// mode.
#pragma once

#include <array>

#include "enhance/observation.h"
#include "kernels/band_pass.h"

namespace cirrus::enhance {

/// The ranges observations are drawn from. Lengths: FWHM; low-resolution beams in low-resolution pixels, the truth's in
/// its own.
struct FieldOptions {
  std::int64_t factor = 4;
  std::int64_t size = 256;                     ///< pixels of the truth a side
  double usual_beam = 2.3, usual_share = 0.6;  ///< both beams sit near this value in so many fields
  std::vector<double> beam_in{1.5, 3.5};
  std::vector<double> beam_out{1.9, 3.0};
  std::vector<double> snr{5, 600};
  double beam_error = 0.03, noise_error = 0.1;  ///< rms of what is told about beam and noise against what is, relative
  double truth_noise_share = 0.15;
  std::vector<double> truth_noise{0.01, 0.15};
};

/// A simulated observation with its truth ([H, W] float64).
struct SimulatedField {
  Observation observation;
  at::Tensor truth;
};
SimulatedField simulate_field(const FieldOptions& options, std::uint64_t seed, std::uint64_t index);

/// What a training sample is cut from.
struct TrainingField {
  at::Tensor planes;   ///< float32 [1 + 3, H, W]: residual x0, then the conditions
  at::Tensor scalars;  ///< float32 [4]
};
TrainingField make_training_field(const FieldOptions& options, std::uint64_t seed, std::uint64_t index,
                                  const ResidualScale& scale);

/// Constants of the model that are measured on `fields` fields before training: the residual's scale, and the rms of
/// each band of the scaled residual.
struct Calibration {
  ResidualScale scale;
  std::array<double, kernels::kBands> band_rms{};
};
Calibration calibrate(const FieldOptions& options, std::uint64_t seed, std::int64_t fields);

}  // namespace cirrus::enhance
