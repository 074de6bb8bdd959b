// Arguments by name, and the call.
#include "device/hpu/plugin_operator.h"

namespace cirrus::device::hpu {

PluginOperator::PluginOperator(const char* name) : handle_(c10::Dispatcher::singleton().findSchema({name, ""})) {
  if (handle_ && !handle_->hasKernelForDispatchKey(c10::DispatchKey::HPU)) handle_.reset();
}

std::optional<torch::jit::Stack> PluginOperator::arguments(const Values& values) const {
  if (!handle_) return std::nullopt;
  torch::jit::Stack stack;
  for (const c10::Argument& argument : handle_->schema().arguments()) {
    if (std::optional<c10::IValue> value = values(argument))
      stack.push_back(std::move(*value));
    else if (argument.default_value() || argument.type()->kind() == c10::TypeKind::OptionalType)
      stack.push_back(argument.default_value().value_or(c10::IValue()));
    else
      return std::nullopt;
  }
  return stack;
}

bool PluginOperator::takes(const Values& values) const { return arguments(values).has_value(); }

torch::jit::Stack PluginOperator::operator()(const Values& values) const {
  std::optional<torch::jit::Stack> stack = arguments(values);
  TORCH_CHECK(stack, "the plug-in's operator wants arguments that are unknown here");
  handle_->callBoxed(*stack);
  return std::move(*stack);
}

}  // namespace cirrus::device::hpu
