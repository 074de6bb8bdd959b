// Addressed randomness: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). A number is
// a pure function of (seed, purpose, three addresses), so what is drawn does not depend on tiles, batches, threads,
// ranks or resume.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace cirrus {

/// What a random number is for: streams with different purposes never share numbers.
enum class Purpose : std::uint32_t {
  sampler_noise = 1,   ///< initial noise and churn of the sampler
  data_noise = 2,      ///< noise draws added to the data in the consistency solve
  training_noise = 3,  ///< noise added to training targets
  training_sigma = 4,  ///< noise levels of training samples
  training_order = 5,  ///< which field, patch and flip a training sample is
  weights = 6,         ///< initial weights
  sky = 7,             ///< synthetic sky: parameters and fields
  degrade = 8,         ///< instrument noise, stripes, beam errors
  bootstrap = 9,       ///< statistics
  dropout = 10,        ///< which activations of a training sample are dropped
};

/// One Philox4x32-10 block: 4 words from a 128-bit counter and a 64-bit key.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// A uniform number in (0, 1) from 32 bits.
constexpr double uniform_from_bits(std::uint32_t bits) { return (bits + 0.5) * (1.0 / 4294967296.0); }

/// Two independent standard normal numbers from two words (Box and Muller 1958).
inline std::array<double, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log(uniform_from_bits(a)));
  const double angle = 6.283185307179586476925 * uniform_from_bits(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// The key and upper counter words that (seed, purpose, item, step) address; `block` counts blocks of four words below
/// them. item: sample, member or field; step: sampler step, training step or sub-stream.
class Address {
public:
  constexpr Address(std::uint64_t seed, Purpose purpose, std::uint64_t item = 0, std::uint32_t step = 0)
      : key_{static_cast<std::uint32_t>(seed),
             static_cast<std::uint32_t>(seed >> 32) ^ (static_cast<std::uint32_t>(purpose) * 0x9E3779B9u)},
        high_{static_cast<std::uint32_t>(item) ^ (static_cast<std::uint32_t>(item >> 32) * 0x85EBCA6Bu), step} {}
  constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), high_[0], high_[1]},
                      key_);
  }
  const std::array<std::uint32_t, 2>& key() const { return key_; }
  const std::array<std::uint32_t, 2>& high() const { return high_; }

private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> high_;
};

/// A sequence of numbers at one address: for parameters drawn one after another. Not for fields (see fill_normal in
/// kernels/).
class Stream {
public:
  explicit Stream(const Address& address) : address_(address) {}
  std::uint32_t bits() {
    if (used_ == 4) {
      words_ = address_.block(next_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  double uniform() { return uniform_from_bits(bits()); }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double log_uniform(double low, double high) { return std::exp(uniform(std::log(low), std::log(high))); }
  double normal() {
    const std::uint32_t a = bits();
    return normal_pair(a, bits())[0];
  }
  /// A whole number in [0, n).
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits()) * n) >> 32);
  }

private:
  Address address_;
  std::array<std::uint32_t, 4> words_{};
  std::uint64_t next_ = 0;
  unsigned used_ = 4;
};

}  // namespace cirrus
