// Each rank puts its bytes under a numbered key, reads those of all, and combines them in rank order.
#include "dist/store_backend.h"

#include <cstring>

#include "base/errors.h"
#include "dist/host_backend.h"

namespace cirrus::dist {
namespace {

class StoreBackend : public HostBackend {
public:
  StoreBackend(c10::intrusive_ptr<c10d::Store> store, std::string name, int rank, int size)
      : HostBackend(rank, size), store_(std::move(store)), name_(std::move(name)) {
    start();
  }
  ~StoreBackend() override { stop(); }
  const std::string getBackendName() const override { return "cirrus-store"; }

protected:
  using Bytes = std::vector<std::uint8_t>;

  void reduce_all(const HostBuffer& b, Reduce op) override { combine(all_of(b), b, op, 0); }
  void send_to_all(const HostBuffer& b, int root) override {
    const std::string key = next();
    if (getRank() == root) store_->set(key, bytes_of(b));
    const Bytes bytes = store_->get(key);
    require(bytes, b.bytes());
    std::memcpy(b.data, bytes.data(), bytes.size());
    forget(key, getRank() == root);
  }
  void gather_to_all(const HostBuffer& out, const HostBuffer& in) override {
    auto* to = static_cast<std::uint8_t*>(out.data);
    for (const Bytes& bytes : all_of(in)) {
      std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    }
  }
  void reduce_and_scatter(const HostBuffer& out, const HostBuffer& in, Reduce op) override {
    combine(all_of(in), out, op, getRank() * out.bytes());
  }
  void exchange(const HostBuffer& out, const std::vector<std::int64_t>& from, const HostBuffer& in,
                const std::vector<std::int64_t>& to) override {
    const std::string key = next() + "/";
    const auto* sent = static_cast<const std::uint8_t*>(in.data);
    for (int peer = 0; peer < getSize(); ++peer) {
      const std::int64_t n = to[static_cast<std::size_t>(peer)];
      store_->set(key + std::to_string(getRank()) + "-" + std::to_string(peer), Bytes(sent, sent + n));
      sent += n;
    }
    auto* received = static_cast<std::uint8_t*>(out.data);
    for (int peer = 0; peer < getSize(); ++peer) {
      const std::string name = key + std::to_string(peer) + "-" + std::to_string(getRank());
      const Bytes bytes = store_->get(name);
      require(bytes, from[static_cast<std::size_t>(peer)]);
      std::memcpy(received, bytes.data(), bytes.size());
      received += bytes.size();
      store_->deleteKey(name);
    }
  }
  void meet() override {
    std::uint8_t here = 1;
    all_of({&here, 1, at::kByte});
  }

private:
  std::string next() { return name_ + "/" + std::to_string(number_++); }
  static Bytes bytes_of(const HostBuffer& b) {
    const auto* p = static_cast<const std::uint8_t*>(b.data);
    return {p, p + b.bytes()};
  }
  static void require(const Bytes& bytes, std::int64_t expected) {
    if (static_cast<std::int64_t>(bytes.size()) != expected)
      throw Error(ExitCode::internal, "Ranks disagree on the size of a collective: " + std::to_string(bytes.size()) +
                                          " bytes came, " + std::to_string(expected) + " were expected");
  }
  /// The bytes of all ranks, in rank order.
  std::vector<Bytes> all_of(const HostBuffer& b) {
    const std::string key = next() + "/";
    store_->set(key + std::to_string(getRank()), bytes_of(b));
    std::vector<Bytes> all;
    for (int rank = 0; rank < getSize(); ++rank) {
      all.push_back(store_->get(key + std::to_string(rank)));
      require(all.back(), b.bytes());
    }
    forget(key + std::to_string(getRank()), true);
    return all;
  }
  /// A key may go once all ranks have read it: when they have all come to the collective after next.
  void forget(const std::string& key, bool mine) {
    if (mine) old_.push_back(key);
    else old_.emplace_back();
    if (old_.size() <= 2) return;
    if (!old_.front().empty()) store_->deleteKey(old_.front());
    old_.pop_front();
  }
  static void combine(const std::vector<Bytes>& all, const HostBuffer& out, Reduce op, std::int64_t offset) {
    const auto tensor = [&](const Bytes& bytes) {
      return at::from_blob(const_cast<std::uint8_t*>(bytes.data()) + offset, {out.count}, at::TensorOptions(out.type));
    };
    at::Tensor result = tensor(all[0]).clone();
    for (std::size_t i = 1; i < all.size(); ++i) {
      const at::Tensor other = tensor(all[i]);
      switch (op) {
        case Reduce::SUM:
          result = out.type == at::kBool ? at::logical_or(result, other) : result + other;
          break;
        case Reduce::PRODUCT:
          result = result * other;
          break;
        case Reduce::MIN:
          result = at::minimum(result, other);
          break;
        case Reduce::MAX:
          result = at::maximum(result, other);
          break;
        default:
          throw Error(ExitCode::internal, "Ranks cannot combine elements by this operation");
      }
    }
    std::memcpy(out.data, result.data_ptr(), static_cast<std::size_t>(out.bytes()));
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::string name_;
  std::uint64_t number_ = 0;
  std::deque<std::string> old_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_store_backend(c10::intrusive_ptr<c10d::Store> store, const std::string& name,
                                                     int rank, int size) {
  return c10::make_intrusive<StoreBackend>(std::move(store), name, rank, size);
}

}  // namespace cirrus::dist
