// The backend for host memory over MPI, and MPI's part in joining a world. Only mpi_backend.cpp
// and mpi_types.h name MPI's functions; in a build without MPI they say so.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace cirrus::dist {

struct MpiPlace {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
};

/// Whether this build has MPI.
bool has_mpi();
/// Of the library: "MPICH Version: 4.0.2", the first line of what it says of itself.
std::string mpi_library();
/// Initialises MPI with threads and asks where this process is. Throws Error(unavailable) without MPI in the build, or
/// where the library grants no threads.
MpiPlace start_mpi();
/// Ends MPI, where it runs; the process exits with `status` then.
void finish_mpi(int status);
/// Ends all ranks, so that the launcher exits with `code`; returns only where MPI does not run.
void abort_mpi(int code);
/// `text` of rank 0 on all ranks.
std::string mpi_broadcast(const std::string& text);

/// A backend among the world's ranks of equal `color`, ordered by `rank`. All ranks of the world call it.
c10::intrusive_ptr<c10d::Backend> make_mpi_backend(int color, int rank);

}  // namespace cirrus::dist
