// Philox4x32-10 against the known-answer vectors of Random123 (kat_vectors), and the moments of what is made from it.
#include "base/random.h"

#include <boost/test/unit_test.hpp>
#include <set>
#include <vector>

using namespace cirrus;

BOOST_AUTO_TEST_SUITE(random_numbers)

BOOST_AUTO_TEST_CASE(philox_gives_the_published_vectors) {
  using Words = std::array<std::uint32_t, 4>;
  const Words zeros = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const Words ones = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  const Words pi = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  constexpr std::uint32_t f = 0xffffffff;
  BOOST_TEST(philox4x32({0, 0, 0, 0}, {0, 0}) == zeros, boost::test_tools::per_element());
  BOOST_TEST(philox4x32({f, f, f, f}, {f, f}) == ones, boost::test_tools::per_element());
  BOOST_TEST(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) == pi,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(uniform_numbers_stay_inside_the_open_interval) {
  BOOST_TEST(uniform_from_bits(0) > 0.0);
  BOOST_TEST(uniform_from_bits(0xffffffff) < 1.0);
}

BOOST_AUTO_TEST_CASE(normal_numbers_have_the_moments_of_a_normal) {
  // Standard errors of the four moments with n numbers: 1/sqrt(n), sqrt(2/n), sqrt(15/n), sqrt(96/n); five of them
  // allowed.
  constexpr std::size_t n = 1000000;
  const Address address(7, Purpose::sky, 3, 2);
  double sum[5] = {};
  for (std::size_t block = 0; block < n / 4; ++block) {
    const auto words = address.block(block);
    for (std::size_t i = 0; i < 4; i += 2) {
      for (const double x : normal_pair(words[i], words[i + 1])) {
        double power = 1;
        for (double& s : sum) s += power, power *= x;
      }
    }
  }
  const double count = sum[0];
  BOOST_TEST(count == n);
  BOOST_TEST(std::abs(sum[1] / count) < 5 * std::sqrt(1 / count));
  BOOST_TEST(std::abs(sum[2] / count - 1) < 5 * std::sqrt(2 / count));
  BOOST_TEST(std::abs(sum[3] / count) < 5 * std::sqrt(15 / count));
  BOOST_TEST(std::abs(sum[4] / count - 3) < 5 * std::sqrt(96 / count));
}

BOOST_AUTO_TEST_CASE(every_part_of_an_address_counts) {
  const std::vector<Address> addresses = {
      {0, Purpose::sky, 0, 0},     {1, Purpose::sky, 0, 0}, {1ull << 32, Purpose::sky},
      {0, Purpose::degrade, 0, 0}, {0, Purpose::sky, 1, 0}, {0, Purpose::sky, 1ull << 32, 0},
      {0, Purpose::sky, 0, 1},
  };
  std::set<std::array<std::uint32_t, 4>> seen;
  for (const Address& address : addresses) {
    for (const std::uint64_t index : {0ull, 1ull, 1ull << 32}) seen.insert(address.block(index));
  }
  BOOST_TEST(seen.size() == 3 * addresses.size());
}

BOOST_AUTO_TEST_CASE(a_stream_repeats_and_stays_in_its_limits) {
  Stream one(Address(5, Purpose::training_order)), two(Address(5, Purpose::training_order));
  std::set<std::uint64_t> dice;
  for (int i = 0; i < 1000; ++i) {
    BOOST_TEST_REQUIRE(one.bits() == two.bits());
    const double x = one.log_uniform(0.01, 100);
    BOOST_TEST_REQUIRE((x >= 0.01 && x <= 100));
    dice.insert(one.below(6));
    two.uniform(), two.below(2);
  }
  BOOST_TEST(dice.size() == 6u);
  BOOST_TEST(*dice.rbegin() == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
