// The two ends of the network, each in one pass: planes of full resolution to channels-last activations at half of it
// (space-to-depth 2), and back to a field. reference:: holds the same as plain ATen operators, the oracle of the tests
// and the path of other devices.
#pragma once

#include <ATen/ATen.h>

namespace cirrus::kernels {

/// The network's input: bands ([N, B, H, W] float32) times scales ([N, B]), then maps ([N, M, H, W] float32), then a
/// plane of ones; every 2 x 2 pixels become channels (channel 4 c + 2 dy + dx of plane c, as at::pixel_unshuffle).
/// Returns [N, 4 (B + M + 1), H/2, W/2] of `dtype`, channels-last. H and W are even. No gradient flows through it.
at::Tensor space_to_depth_input(const at::Tensor& bands, const at::Tensor& scales, const at::Tensor& maps,
                                at::ScalarType dtype);

/// The network's output: head ([N, 4, H/2, W/2]) spread over 2 x 2 pixels times head_scale ([N]), plus the sum over
/// bands
/// ([N, B, H, W] float32) times band_scales ([N, B]). Returns float32 [N, 1, H, W]. Gradients flow to head and both
/// scales, none to bands.
at::Tensor depth_to_space_output(const at::Tensor& head, const at::Tensor& head_scale, const at::Tensor& bands,
                                 const at::Tensor& band_scales);

namespace reference {
at::Tensor space_to_depth_input(const at::Tensor& bands, const at::Tensor& scales, const at::Tensor& maps,
                                at::ScalarType dtype);
at::Tensor depth_to_space_output(const at::Tensor& head, const at::Tensor& head_scale, const at::Tensor& bands,
                                 const at::Tensor& band_scales);
}  // namespace reference

}  // namespace cirrus::kernels
