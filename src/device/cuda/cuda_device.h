// One NVIDIA GPU as a Device, and recording of its work.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace cirrus::device::cuda {

/// "13.0" of the 13000 that CUDA's version functions give.
std::string cuda_version(int number);
/// Version of the kernel's driver, "580.82.07"; where it does not say: "of unknown version".
std::string driver_version();
/// "9.0" of a card.
std::string compute_capability(int card);

/// Opens a card by its CUDA number: makes it the current device of this process and sets LibTorch up for it. Throws
/// Error(unavailable) with the reason if the card cannot be used.
std::unique_ptr<Device> open_card(int card);

/// Device::capture on the current card: on a stream of its own, with memory of its own, which lives as long as the
/// graph.
std::unique_ptr<Graph> record_graph(const std::function<void()>& work);

}  // namespace cirrus::device::cuda
