// Pixels without a value: filling them so that a convolution may run, and averaging around them. Row-major images of
// doubles, NaN = no value; blocks are s x s pixels from the first row and column, incomplete ones at the far edges are
// left out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cirrus::fits {

/// 1 where a pixel is NaN or infinite.
std::vector<std::uint8_t> invalid_mask(std::span<const double> pixels);

/// Replaces invalid pixels by normalised averages of the valid ones around them, at the smallest scale that has any
/// (pull-push, Gortler et al. 1996, section 3.4). Valid pixels are untouched. Returns how many were filled; throws
/// bad_data if none is valid.
std::int64_t fill_invalid(std::span<double> pixels, std::int64_t width, std::int64_t height);

/// Each pixel of the mask repeated s x s times.
std::vector<std::uint8_t> upscale_mask(std::span<const std::uint8_t> mask, std::int64_t width, std::int64_t height,
                                       int s);

/// Sets NaN where the mask is not 0.
void apply_mask(std::span<double> pixels, std::span<const std::uint8_t> mask);

/// Mean over the valid pixels of each s x s block, [height / s][width / s]; NaN where a block has none.
std::vector<double> block_mean(std::span<const double> pixels, std::int64_t width, std::int64_t height, int s);

/// s^2 times block_mean: the block's sum, valid pixels standing for missing ones.
std::vector<double> block_sum(std::span<const double> pixels, std::int64_t width, std::int64_t height, int s);

}  // namespace cirrus::fits
