// The tensor side of the CUDA operators: what a kernel may be given, and on which stream it runs.
#pragma once

#include <ATen/ATen.h>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <initializer_list>

#include "device/cuda/element.h"

namespace cirrus::device {

/// Makes the device of `x` the current one for one operator, and checks at its end that its kernels were launched. For
/// a CPU tensor it does nothing: the tests run the same operators with kernels that an emulated device runs.
class Launching {
public:
  explicit Launching(const at::Tensor& x) {
    if (!x.is_cuda()) return;
    guard_.set_device(x.device());
    stream_ = c10::cuda::getCurrentCUDAStream(x.device().index()).stream();
    real_ = true;
  }
  operator CudaStream() const { return stream_; }
  void check() const {
    if (real_) C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

private:
  c10::cuda::OptionalCUDAGuard guard_;
  CudaStream stream_ = nullptr;
  bool real_ = false;
};

inline Element element_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return Element::float32;
    case at::kBFloat16:
      return Element::bfloat16;
    case at::kHalf:
      return Element::float16;
    default:
      TORCH_CHECK(false, "CUDA kernel wants float32, bfloat16 or float16, got ", x.scalar_type());
  }
}

/// Whether all begin where a 16-byte access may.
inline bool aligned(std::initializer_list<at::Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& x) { return reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0; });
}

/// Whether rows of so many channels can be read 16 bytes at a time.
inline bool wide_rows(Element type, std::initializer_list<std::int64_t> channels,
                      std::initializer_list<at::Tensor> tensors) {
  const std::int64_t width = type == Element::float32 ? 4 : 8;
  return std::all_of(channels.begin(), channels.end(), [&](std::int64_t c) { return c % width == 0; }) &&
         aligned(tensors);
}

inline at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }
inline at::Tensor like_channels_last(const at::Tensor& x) {
  return at::empty_like(x, x.options(), at::MemoryFormat::ChannelsLast);
}
inline at::Tensor float_contiguous(const at::Tensor& x) { return x.to(at::kFloat).contiguous(); }

}  // namespace cirrus::device
