// Finding and loading the vendor's PyTorch plug-in, without its headers and without Python in the process.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace cirrus::device::hpu {

struct Plugin {
  std::filesystem::path package;  ///< .../habana_frameworks/torch
  std::filesystem::path library;
  std::string torch_version;  ///< required_version.txt: the torch it was built for
};

/// Why there is no device: what was found, and what to do.
struct Problem {
  std::string found, remedy;
};

/// Looks where CIRRUS_HPU_PLUGIN says (the plug-in's .so, or the package's folder); without it, and only if the machine
/// has a card, asks python3 (or the interpreter CIRRUS_HPU_PYTHON names, card or not) where its package is. Checks that
/// the package fits this program's torch. Loads nothing; cheap after the first call.
/// @return the plug-in, or the problem
std::optional<Plugin> find_plugin(Problem& problem);

/// Prepares the environment, loads the plug-in for the life of the program, and acquires the card. Throws
/// Error(unavailable).
void load_plugin(const Plugin& plugin);

/// The version of the torch library in this process, with its local part: "2.6.0a0+gitabcdef0" is Gaudi's own build.
std::string torch_version();

}  // namespace cirrus::device::hpu
