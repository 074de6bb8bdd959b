// What every network of Cirrus is to a sampler and a trainer: a denoiser D(x; sigma, conditions) of the normalised
// residual.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dist/activations.h"
#include "dist/unit.h"

namespace cirrus::diffusion {

/// What the low-resolution map says about each sample, in the network's own units.
struct Conditions {
  at::Tensor maps;       ///< [N, M, H, W] float32
  at::Tensor scalars;    ///< [N, S] float32
  at::Tensor samples{};  ///< [N] int64: numbers of training samples, which address their dropout; on the host where
                         ///< the device has no kernel for it (kernels/dropout.h); undefined: none acts
};

/// Receptive radius of a network whose estimate at a pixel depends on the whole window.
inline constexpr std::int64_t kWholeWindow = std::int64_t{1} << 40;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Ownership: the denoiser owns its parameters; parameters() returns aliases. Not thread-safe while training.
class Denoiser {
public:
  virtual ~Denoiser() = default;
  /// Estimate of the clean residual: E[x0 | x, conditions]. x: [N, 1, H, W] float32, sigma: [N] float32; H and W are
  /// multiples of alignment(). Outside the window everything counts as zero. Returns float32 [N, 1, H, W].
  virtual at::Tensor denoise(const at::Tensor& x, const at::Tensor& sigma, const Conditions& conditions) = 0;
  /// Mean over pixels and samples of the training loss at (x0, sigma, noise): lambda(sigma) |D(x0 + sigma n) - x0|^2.
  virtual at::Tensor loss(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& sigma,
                          const Conditions& conditions) = 0;

  virtual std::vector<NamedTensor> parameters() = 0;
  /// The parameters by the blocks that use them, in the order in which those run; by default all belong to the root.
  virtual std::vector<dist::Unit> units();
  /// Blocks run through `runner` from now on, in training; null: as they are.
  virtual void run_units_on(dist::UnitRunner* /*runner*/) {}
  /// Parameters each row of which has rms 1: set so after each optimizer step.
  virtual std::vector<std::string> unit_rows() const { return {}; }
  /// Weights have changed: what was computed from them is forgotten.
  virtual void weights_changed() = 0;
  /// weights_changed(), with the rows of unit_rows() set to rms 1: for networks that train whole.
  virtual void after_update() { weights_changed(); }
  /// Fixes the weights for sampling: effective weights are computed once, in `dtype`. Undone by the next
  /// after_update().
  virtual void prepare_for_sampling(at::ScalarType dtype) = 0;

  virtual std::int64_t alignment() const = 0;  ///< pixels: windows start and end on multiples of it
  virtual std::int64_t receptive_radius()
      const = 0;  ///< pixels: the estimate at a pixel depends on nothing farther away
  /// What training takes on `device` for `samples` windows at a time, by units; the network itself may be without
  /// memory (device "meta"). Empty: not known.
  virtual dist::ModelActivations activations(std::int64_t /*samples*/, std::int64_t /*height*/, std::int64_t /*width*/,
                                             const at::Device& /*device*/) const {
    return {};
  }
  /// Of one forward pass over a window, a multiply-add counting 2: convolutions, matrix products, attention.
  virtual double flops(std::int64_t height, std::int64_t width) const = 0;
  virtual std::int64_t condition_maps() const = 0;     ///< M of Conditions
  virtual std::int64_t condition_scalars() const = 0;  ///< S of Conditions
};

}  // namespace cirrus::diffusion
