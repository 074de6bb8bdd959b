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
    if (getRank() == root) {  // goes on at once, however far behind the others are: the last reader removes the key
      if (getSize() > 1) put(key, static_cast<const std::uint8_t*>(b.data), b.bytes());
      return;
    }
    const Bytes bytes = take(key, b.bytes());
    std::memcpy(b.data, bytes.data(), bytes.size());
    if (store_->add(key + "/read", 1) < getSize() - 1) return;
    remove(key, b.bytes());
    store_->deleteKey(key + "/read");
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
      put(key + std::to_string(getRank()) + "-" + std::to_string(peer), sent, n);
      sent += n;
    }
    auto* received = static_cast<std::uint8_t*>(out.data);
    for (int peer = 0; peer < getSize(); ++peer) {
      const std::string name = key + std::to_string(peer) + "-" + std::to_string(getRank());
      const Bytes bytes = take(name, from[static_cast<std::size_t>(peer)]);
      std::memcpy(received, bytes.data(), bytes.size());
      received += bytes.size();
      remove(name, from[static_cast<std::size_t>(peer)]);
    }
  }
  void meet() override {
    std::uint8_t here = 1;
    all_of({&here, 1, at::kByte});
  }

private:
  std::string next() { return name_ + "/" + std::to_string(number_++); }
  /// LibTorch's server takes values of up to 8 MiB: larger ones go in pieces, each under a key of its own.
  static constexpr std::int64_t kPiece = 4 << 20;
  static std::int64_t pieces(std::int64_t size) { return std::max<std::int64_t>(1, (size + kPiece - 1) / kPiece); }
  static std::string piece(const std::string& key, std::int64_t i) { return key + "." + std::to_string(i); }

  void put(const std::string& key, const std::uint8_t* bytes, std::int64_t size) {
    for (std::int64_t i = 0; i < pieces(size); ++i)
      store_->set(piece(key, i), Bytes(bytes + i * kPiece, bytes + std::min(size, (i + 1) * kPiece)));
  }
  /// What another rank has put there, who has to have put `size` bytes.
  Bytes take(const std::string& key, std::int64_t size) {
    Bytes all;
    for (std::int64_t i = 0; i < pieces(size); ++i) {
      const Bytes bytes = store_->get(piece(key, i));
      const std::int64_t expected = std::min(kPiece, size - i * kPiece);
      if (static_cast<std::int64_t>(bytes.size()) != expected)
        throw Error(ExitCode::internal, "Ranks disagree on the size of a collective: " + std::to_string(bytes.size()) +
                                            " bytes came, " + std::to_string(expected) + " were expected");
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  void remove(const std::string& key, std::int64_t size) {
    for (std::int64_t i = 0; i < pieces(size); ++i) store_->deleteKey(piece(key, i));
  }
  /// The bytes of all ranks, in rank order.
  std::vector<Bytes> all_of(const HostBuffer& b) {
    const std::string key = next() + "/";
    put(key + std::to_string(getRank()), static_cast<const std::uint8_t*>(b.data), b.bytes());
    std::vector<Bytes> all;
    for (int rank = 0; rank < getSize(); ++rank) all.push_back(take(key + std::to_string(rank), b.bytes()));
    forget(key + std::to_string(getRank()), b.bytes());
    return all;
  }
  /// A key may go once all ranks have read it: when they have all come to the next collective of this sort.
  void forget(const std::string& key, std::int64_t size) {
    old_.emplace_back(key, size);
    if (old_.size() <= 2) return;
    remove(old_.front().first, old_.front().second);
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
  std::deque<std::pair<std::string, std::int64_t>> old_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_store_backend(c10::intrusive_ptr<c10d::Store> store, const std::string& name,
                                                     int rank, int size) {
  return c10::make_intrusive<StoreBackend>(std::move(store), name, rank, size);
}

}  // namespace cirrus::dist
