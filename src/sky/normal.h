// Fast addressed normal numbers for fields: single precision, a pure function of the address and the position in the
// sequence.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"

namespace cirrus::sky {

/// Fills `out` with the first out.size() standard normal numbers of the address (Philox, Box and Muller in single
/// precision, within 5.9 sigma). Number i does not depend on how many are asked for.
void fill_normal(const Address& address, std::span<float> out);

}  // namespace cirrus::sky
