// An operator of the plug-in, called by its schema through the dispatcher: arguments are filled in by name, since they
// differ between releases and between lazy and eager builds.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <string>

namespace cirrus::device::hpu {

class PluginOperator {
public:
  /// The value of the argument of that name and type; null: it is unknown here.
  using Values = std::function<std::optional<c10::IValue>(const c10::Argument&)>;

  /// `name`: "hpu::optimizer_adamw". Finds it if the plug-in is loaded and has a kernel for it.
  explicit PluginOperator(const char* name);
  /// Whether it is there and all its arguments have a value, their default, or may be none.
  bool takes(const Values& values) const;
  /// Calls it; for arguments that takes(). Returns what it returns.
  torch::jit::Stack operator()(const Values& values) const;

private:
  std::optional<torch::jit::Stack> arguments(const Values& values) const;

  std::optional<c10::OperatorHandle> handle_;
};

}  // namespace cirrus::device::hpu
