// Loading the bridge to HCCL, Gaudi's collectives, which exist in its Python package alone: libcirrus_hccl.so starts a
// Python interpreter in this process. See hccl_bridge.cpp.
#pragma once

#include <string>

#include "dist/collective_library.h"

namespace cirrus::dist {

/// Null, and why, where the bridge is not built or does not load. It stays loaded for the life of the program.
const CollectiveLibrary* load_hccl(std::string& reason);

}  // namespace cirrus::dist
