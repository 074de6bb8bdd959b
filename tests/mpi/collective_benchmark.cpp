// All-reduce of float32 by Cirrus's process group against MPI_Allreduce itself, in turns in the same run:
//   mpiexec -n N collective_benchmark [MiB]
// Rank 0 prints the median seconds of both and their ratio (MPI's over Cirrus's: 1 is as fast).
#include <ATen/ATen.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "device/device.h"
#include "dist/process_group.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  {
    const dist::World world = dist::join_world();
    const auto group = dist::make_group(world, device::cpu(), dist::all_ranks(world, "benchmark"));
    const std::int64_t count = (argc > 1 ? std::atoll(argv[1]) : 64) << 18;
    const at::Tensor t = at::zeros({count}, at::kFloat);
    std::vector<double> ours, theirs;
    for (int i = 0; i < 24; ++i) {
      group->barrier("a benchmark");
      double started = steady_seconds();
      group->all_reduce(t, dist::Reduce::sum, "a benchmark").wait();
      if (i >= 4) ours.push_back(steady_seconds() - started);
      group->barrier("a benchmark");
      started = steady_seconds();
      MPI_Allreduce(MPI_IN_PLACE, t.data_ptr(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (i >= 4) theirs.push_back(steady_seconds() - started);
    }
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    const double a = ours[ours.size() / 2], b = theirs[theirs.size() / 2];
    if (world.is_lead())
      std::printf("%lld MiB on %d ranks: Cirrus %.2f ms, MPI %.2f ms, ratio %.2f\n",
                  static_cast<long long>(count >> 18), world.size, 1e3 * a, 1e3 * b, b / a);
  }
  cirrus::dist::leave_world();
  return 0;
}
