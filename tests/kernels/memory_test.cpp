// What the allocator setting is for: memory that was freed is used again without the kernel's help.
#include "kernels/memory.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(freed_activations_are_not_cleared_again) {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
  cirrus::kernels::keep_freed_memory();
  const auto pass = [] {  // 3 activations of 32 MiB, the first freed before the last comes
    at::Tensor a = at::zeros({8 << 20}, at::kFloat);
    const at::Tensor b = at::zeros({8 << 20}, at::kFloat);
    a.reset();
    const at::Tensor c = at::zeros({8 << 20}, at::kFloat);
    return b[0].item<float>() + c[0].item<float>();
  };
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  const auto faults_of = [&](int passes) {
    const long before = faults();
    for (int i = 0; i < passes; ++i) pass();
    return faults() - before;
  };
  // Only the first passes, which find the heap as others left it, may ask for new pages.
  const long first = faults_of(4), later = faults_of(16);
  BOOST_TEST_MESSAGE(first << " page faults, then " << later);
  // Without the setting each pass touches 24576 new pages; with it, one activation at most lands on new ones once.
  BOOST_TEST(later <= 8192 + 100);
#else
  BOOST_TEST_MESSAGE("skipped: another allocator than glibc's");
#endif
}

BOOST_AUTO_TEST_SUITE_END()
