// Collectives over MPI, in place on host memory. A rank that waits for others sleeps: before a large collective all
// meet in a barrier that is asked after now and then, so that only data that really move occupy a core; where ranks
// outnumber cores, not even those.
#include "dist/mpi_backend.h"

#ifdef CIRRUS_HAVE_MPI
#include <mpi.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/errors.h"
#include "dist/host_backend.h"
#include "dist/mpi_types.h"

namespace cirrus::dist {
namespace {

constexpr std::int64_t kSmall = 32 << 10;                         // bytes that travel without a barrier before
constexpr std::int64_t kChunk = std::int64_t{1} << 28;            // elements in one call: MPI-3 counts in int
constexpr long kShortestSleep = 10'000, kLongestSleep = 300'000;  // nanoseconds between looks at a request
constexpr int kLooks = 50;                                        // before the first sleep

/// More ranks of this host than cores: the MPI library, which keeps looking while it waits, would hold the core that
/// the rank it waits for needs.
bool crowded = false;
/// Whether a tensor goes by the library's own waiting, which moves large ones faster.
bool goes_directly(std::int64_t bytes) { return bytes > kSmall && !crowded; }

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw Error(ExitCode::unavailable,
              std::string(what) + " failed: " + std::string(text, static_cast<std::size_t>(length)),
              "see what the other ranks say; check the network between the hosts");
}

/// Waits without occupying the core that another rank may need in order to come.
void wait_politely(MPI_Request* requests, int count, const char* what) {
  long sleep = kShortestSleep;
  for (int look = 0;; ++look) {
    int done = 0;
    check(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), what);
    if (done != 0) return;
    if (look < kLooks) {
      sched_yield();
      continue;
    }
    const timespec pause{0, sleep};
    nanosleep(&pause, nullptr);
    sleep = std::min(2 * sleep, kLongestSleep);
  }
}

class MpiBackend : public HostBackend {
public:
  MpiBackend(MPI_Comm comm, int rank, int size) : HostBackend(rank, size), comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) mpi::reduction(type, Reduce::SUM);  // made once, here
    start();
  }
  ~MpiBackend() override { stop(); }  // the communicator lives until MPI ends: freeing it is collective
  const std::string getBackendName() const override { return "cirrus-mpi"; }

protected:
  void reduce_all(const HostBuffer& b, Reduce op) override {
    const mpi::Reduction r = mpi::reduction(b.type, op);
    in_chunks(b, [&](void* data, int count) {
      if (goes_directly(b.bytes()))
        return check(MPI_Allreduce(MPI_IN_PLACE, data, count, r.type, r.op, comm_), "All-reduce");
      MPI_Request request;
      check(MPI_Iallreduce(MPI_IN_PLACE, data, count, r.type, r.op, comm_, &request), "All-reduce");
      wait_politely(&request, 1, "All-reduce");
    });
  }
  void send_to_all(const HostBuffer& b, int root) override {
    in_chunks({b.data, b.bytes(), at::kByte}, [&](void* data, int count) {
      if (goes_directly(b.bytes())) return check(MPI_Bcast(data, count, MPI_BYTE, root, comm_), "Broadcast");
      MPI_Request request;
      check(MPI_Ibcast(data, count, MPI_BYTE, root, comm_, &request), "Broadcast");
      wait_politely(&request, 1, "Broadcast");
    });
  }
  void gather_to_all(const HostBuffer& out, const HostBuffer& in) override {
    if (goes_directly(out.bytes())) meet();
    auto* to = static_cast<char*>(out.data);
    const bool in_place = in.data == to + getRank() * in.bytes();
    if (out.bytes() <= kChunk) {
      const int count = static_cast<int>(in.bytes());
      const void* from = in_place ? MPI_IN_PLACE : in.data;
      if (goes_directly(out.bytes()))
        return check(MPI_Allgather(from, count, MPI_BYTE, to, count, MPI_BYTE, comm_), "All-gather");
      MPI_Request request;
      check(MPI_Iallgather(from, count, MPI_BYTE, to, count, MPI_BYTE, comm_, &request), "All-gather");
      return wait_politely(&request, 1, "All-gather");
    }
    if (!in_place) std::copy_n(static_cast<const char*>(in.data), in.bytes(), to + getRank() * in.bytes());
    for (int root = 0; root < getSize(); ++root)  // too large for one call: each rank's part in pieces
      for (std::int64_t at = 0; at < in.bytes(); at += kChunk)
        check(MPI_Bcast(to + root * in.bytes() + at, static_cast<int>(std::min(kChunk, in.bytes() - at)), MPI_BYTE,
                        root, comm_),
              "All-gather");
  }
  void reduce_and_scatter(const HostBuffer& out, const HostBuffer& in, Reduce op) override {
    const mpi::Reduction r = mpi::reduction(in.type, op);
    if (goes_directly(in.bytes())) meet();
    if (in.count <= kChunk) {
      const int count = static_cast<int>(out.count);
      if (goes_directly(in.bytes()))
        return check(MPI_Reduce_scatter_block(in.data, out.data, count, r.type, r.op, comm_), "Reduce-scatter");
      MPI_Request request;
      check(MPI_Ireduce_scatter_block(in.data, out.data, count, r.type, r.op, comm_, &request), "Reduce-scatter");
      return wait_politely(&request, 1, "Reduce-scatter");
    }
    const auto element = static_cast<std::int64_t>(c10::elementSize(in.type));
    for (int root = 0; root < getSize(); ++root)
      for (std::int64_t at = 0; at < out.count; at += kChunk)
        check(MPI_Reduce(static_cast<const char*>(in.data) + (root * out.count + at) * element,
                         static_cast<char*>(out.data) + at * element,
                         static_cast<int>(std::min(kChunk, out.count - at)), r.type, r.op, root, comm_),
              "Reduce-scatter");
  }
  void exchange(const HostBuffer& out, const std::vector<std::int64_t>& from, const HostBuffer& in,
                const std::vector<std::int64_t>& to) override {
    std::vector<MPI_Request> requests;
    const auto post = [&](char* data, std::int64_t bytes, int peer, bool receive) {
      for (std::int64_t at = 0; at < bytes; at += kChunk) {
        const int count = static_cast<int>(std::min(kChunk, bytes - at));
        MPI_Request& request = requests.emplace_back();
        check(receive ? MPI_Irecv(data + at, count, MPI_BYTE, peer, 0, comm_, &request)
                      : MPI_Isend(data + at, count, MPI_BYTE, peer, 0, comm_, &request),
              "Exchange");
      }
    };
    char *received = static_cast<char*>(out.data), *sent = static_cast<char*>(in.data);
    for (int peer = 0; peer < getSize(); received += from[static_cast<std::size_t>(peer++)])
      post(received, from[static_cast<std::size_t>(peer)], peer, true);
    for (int peer = 0; peer < getSize(); sent += to[static_cast<std::size_t>(peer++)])
      post(sent, to[static_cast<std::size_t>(peer)], peer, false);
    wait_politely(requests.data(), static_cast<int>(requests.size()), "Exchange");
  }
  void meet() override {
    MPI_Request request;
    check(MPI_Ibarrier(comm_, &request), "Barrier");
    wait_politely(&request, 1, "Barrier");
  }

private:
  /// Calls `work` on pieces that MPI can count. Large ones wait for all ranks before.
  template <class Work>
  void in_chunks(const HostBuffer& b, Work&& work) {
    if (goes_directly(b.bytes())) meet();
    const auto element = static_cast<std::int64_t>(c10::elementSize(b.type));
    for (std::int64_t at = 0; at < b.count; at += kChunk)
      work(static_cast<char*>(b.data) + at * element, static_cast<int>(std::min(kChunk, b.count - at)));
  }

  MPI_Comm comm_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_mpi_backend(int color, int rank) {
  MPI_Comm comm;
  check(MPI_Comm_split(MPI_COMM_WORLD, color, rank, &comm), "MPI_Comm_split");
  int own = 0, size = 1;
  MPI_Comm_rank(comm, &own);
  MPI_Comm_size(comm, &size);
  return c10::make_intrusive<MpiBackend>(comm, own, size);
}

bool has_mpi() { return true; }

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string all(text, static_cast<std::size_t>(length));
  all = all.substr(0, all.find('\n'));
  std::replace(all.begin(), all.end(), '\t', ' ');
  return all;
}

MpiPlace start_mpi() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE)
    throw Error(ExitCode::unavailable, "The MPI library (" + mpi_library() + ") grants no MPI_THREAD_MULTIPLE",
                "use an MPI that was built with threads, as MPICH is by default");
  MpiPlace place;
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.size);
  MPI_Comm local;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &local);
  MPI_Comm_rank(local, &place.local_rank);
  MPI_Comm_size(local, &place.local_size);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, local);  // ranks may be bound to one each
  crowded = CPU_COUNT(&cores) < place.local_size;
  MPI_Comm_free(&local);
  return place;
}

void finish_mpi(int status) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return;
  // All ranks have met for the last time, and what they made is on disk. MPICH over UCX's TCP at times waits in
  // MPI_Finalize for an answer that a rank which is further gives no more: that must not keep a job from ending.
  std::thread([status] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    _exit(status);
  }).detach();
  MPI_Finalize();
}

void abort_mpi(int code) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized != 0 && finalized == 0) MPI_Abort(MPI_COMM_WORLD, code);
}

std::string mpi_broadcast(const std::string& text) {
  auto length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::string all = text;
  all.resize(static_cast<std::size_t>(length));
  MPI_Bcast(all.data(), length, MPI_BYTE, 0, MPI_COMM_WORLD);
  return all;
}

}  // namespace cirrus::dist

#else

#include "base/errors.h"

namespace cirrus::dist {

namespace {
[[noreturn]] void refuse() {
  throw Error(ExitCode::unavailable, "This build has no MPI", "configure with -DCIRRUS_MPI=ON, or run one process");
}
}  // namespace

bool has_mpi() { return false; }
std::string mpi_library() { return "none"; }
MpiPlace start_mpi() { refuse(); }
void finish_mpi(int) {}
void abort_mpi(int) {}
std::string mpi_broadcast(const std::string&) { refuse(); }
c10::intrusive_ptr<c10d::Backend> make_mpi_backend(int, int) { refuse(); }

}  // namespace cirrus::dist
#endif
