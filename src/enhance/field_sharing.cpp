// A field travels as its shapes, then its values.
#include "enhance/field_sharing.h"

#include "dist/process_group.h"

namespace cirrus::enhance {

FieldSharing::FieldSharing(const dist::World& world)
    : group_(world.launcher == "mpi" ? dist::make_group(world, device::cpu(), dist::all_ranks(world, "fields"))
                                     : std::make_shared<dist::ProcessGroup>()) {}

int FieldSharing::owner(std::uint64_t index) const {
  return static_cast<int>(index % static_cast<std::uint64_t>(group_->size()));
}

bool FieldSharing::makes(std::uint64_t index) const { return owner(index) == group_->rank(); }

std::shared_ptr<TrainingField> FieldSharing::share(std::uint64_t index, std::shared_ptr<TrainingField> mine) const {
  if (group_->size() == 1) return mine;
  const int root = owner(index);
  at::Tensor shape = at::zeros({4}, at::kLong);
  if (root == group_->rank() && mine)
    shape = at::tensor({mine->planes.size(0), mine->planes.size(1), mine->planes.size(2), mine->scalars.size(0)});
  group_->broadcast(shape, root, "training fields").wait();
  const auto n = [&](std::int64_t i) { return shape[i].item<std::int64_t>(); };
  if (n(0) == 0) return nullptr;
  if (!mine) {
    mine = std::make_shared<TrainingField>();
    mine->planes = at::empty({n(0), n(1), n(2)}, at::kFloat);
    mine->scalars = at::empty({n(3)}, at::kFloat);
  } else {
    mine->planes = mine->planes.contiguous();
    mine->scalars = mine->scalars.contiguous();
  }
  group_->broadcast(mine->planes, root, "training fields").wait();
  if (n(3) > 0) group_->broadcast(mine->scalars, root, "training fields").wait();
  return mine;
}

}  // namespace cirrus::enhance
