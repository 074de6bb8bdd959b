// Which card a process takes where a host runs several: one each, by the process's number on its host.
#pragma once

#include <string>

namespace cirrus::device {

/// Where this process stands among the processes of a run.
struct Place {
  int rank = 0, size = 1;              ///< in the run
  int local_rank = 0, local_size = 1;  ///< on this host
};

/// The name to give open_device() for --device `wanted`: of a kind with several visible cards ("auto", "cuda"), the
/// card whose number is the local rank; CIRRUS_DEVICE_ORDER=3,2,1,0 gives local rank 0 card 3, and so on. Where one
/// card is visible it is this process's own: the scheduler shows each process another one. For Gaudi, whose plug-in
/// reads its card and rank in the environment, sets what is not set there. Opens nothing; to be called before any
/// device is opened. Throws Error(unavailable) if more processes than cards are on this host, Error(usage) for a
/// numbered card with several processes on this host, Error(config) for an order that is none.
std::string choose_device(const std::string& wanted, const Place& place);

}  // namespace cirrus::device
