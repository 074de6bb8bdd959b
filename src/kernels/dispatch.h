// Which implementation of an operator runs. A fused kernel does where torch's dispatcher knows one in library `cirrus`
// for the tensors' device (those of other devices arrive with their module) and for their dtype; elsewhere the
// composition of ATen operators in reference.cpp does, which ATen differentiates.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKeySet.h>

namespace cirrus::kernels {

/// Whether the kernels of a device take activations of this dtype.
inline bool is_kernel_dtype(at::ScalarType type, const at::Device& device) {
  return type == at::kFloat || type == at::kBFloat16 || (type == at::kHalf && !device.is_cpu());
}

/// An operator of library `cirrus`, looked up once. Its signature is that of the kernels behind it.
template <typename Signature>
class FusedOperator;
template <typename Result, typename... Arguments>
class FusedOperator<Result(Arguments...)> {
public:
  explicit FusedOperator(const char* name)
      : handle_(c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Result(Arguments...)>()) {}

  /// Whether the device of x has a kernel, whatever the dtype.
  bool on_device_of(const at::Tensor& x) const {
    return handle_.hasKernelForDispatchKey(c10::legacyExtractDispatchKey(x.key_set()));
  }
  /// Whether it has one for activations like x.
  bool takes(const at::Tensor& x) const { return is_kernel_dtype(x.scalar_type(), x.device()) && on_device_of(x); }

  /// Runs the kernel; nothing is recorded for differentiation.
  Result operator()(Arguments... arguments) const {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return handle_.call(std::forward<Arguments>(arguments)...);
  }

private:
  c10::TypedOperatorHandle<Result(Arguments...)> handle_;
};

}  // namespace cirrus::kernels
