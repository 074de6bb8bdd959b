// The backend for small host tensors where there is no MPI: every collective goes through the store, one copy a rank.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cirrus::dist {

/// A backend of `size` ranks that have the same `name`, over `store`.
c10::intrusive_ptr<c10d::Backend> make_store_backend(c10::intrusive_ptr<c10d::Store> store, const std::string& name,
                                                     int rank, int size);

}  // namespace cirrus::dist
