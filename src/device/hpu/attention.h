// The plug-in's flash attention as operator `cirrus::attention` (kernels/attention.h).
#pragma once

namespace cirrus::device::hpu {

/// Registers it with torch's dispatcher, once and for the life of the program, if the plug-in has both the forward and
/// the backward operator and their arguments are known here. To be called once the plug-in is loaded.
void register_attention();

}  // namespace cirrus::device::hpu
