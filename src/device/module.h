// Libraries of Cirrus that are loaded at run time: where they lie, and what the modules of devices export beside
// devices, for those above device/ who know its type.
#pragma once

#include <filesystem>
#include <string>

namespace cirrus::device {

/// Looks for the file in the folder CIRRUS_MODULE_PATH names, beside the program, and in ../lib/cirrus of its folder.
/// Empty where it is in none of them.
std::filesystem::path find_module(const std::string& file);

/// A function that the module of a kind ("cuda") exports with C linkage; null where it has none, or where no such
/// module is loaded: to be asked after a device of that kind has been opened. Valid for the life of the program.
void* module_symbol(const std::string& kind, const std::string& name);

}  // namespace cirrus::device
