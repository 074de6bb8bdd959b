// How the fake HPU runs an ATen operator: on host tensors that share the card's bytes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "tests/device/fake_hpu/recorder.h"

namespace fake_hpu {

/// A host tensor on the same bytes, sizes and strides; any other tensor is returned as it is.
at::Tensor host_alias(const at::Tensor& t);
/// A new tensor on the card with the host tensor's sizes, strides and values.
at::Tensor to_card(const at::Tensor& host);
/// A hash of everything a compiled graph would depend on: name, shapes, strides, offsets, types, scalars.
std::uint64_t signature(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
/// Boxed kernel of an operator that the bridge implements on the device.
void run_native(const c10::OperatorHandle& op, torch::jit::Stack* stack);
/// Boxed kernel of any other operator: copies to the host, computes, copies back.
void run_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
/// Bytes that a fallback moves are not host reads of the program.
bool inside_fallback();

}  // namespace fake_hpu
