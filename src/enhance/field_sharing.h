// Ranks that train together make each field once: every rank makes every N-th, and sends it to the others.
#pragma once

#include <memory>

#include "dist/world.h"
#include "enhance/training_field.h"

namespace cirrus::dist {
class ProcessGroup;
}

namespace cirrus::enhance {

class FieldSharing {
public:
  /// All ranks make one. Where host memory cannot travel fast (no MPI), every rank makes all fields itself.
  explicit FieldSharing(const dist::World& world);

  /// Whether this rank makes field `index`.
  bool makes(std::uint64_t index) const;
  /// The field on all ranks; its maker gives it, or null if it was asked to stop: then all get null. All ranks call it
  /// for the same fields in the same order.
  std::shared_ptr<TrainingField> share(std::uint64_t index, std::shared_ptr<TrainingField> mine) const;

private:
  int owner(std::uint64_t index) const;
  std::shared_ptr<dist::ProcessGroup> group_;
};

}  // namespace cirrus::enhance
