// Environment variables that the Gaudi plug-in reads once, when it is loaded: what the user has not set is set here.
#pragma once

#include <string>

namespace cirrus::device::hpu {

/// Before the plug-in is loaded: lazy mode unless the user chose, ranks from the launcher's variables (the plug-in
/// knows Open MPI's alone), this rank's card from HABANA_VISIBLE_MODULES. Throws Error(unavailable) if that list is too
/// short.
void prepare_environment();

/// PT_HPU_LAZY_MODE, 1 if unset: for a program in C++ only lazy mode makes graphs.
bool lazy_mode();

/// The variable's value, or "".
std::string variable(const char* name);

}  // namespace cirrus::device::hpu
