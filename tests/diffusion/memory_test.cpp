// Memory while sampling: the first steps take what all need, later ones nothing.
#ifdef __has_include
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#endif
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <boost/test/unit_test.hpp>

#include "device/device.h"
#include "diffusion/sampler.h"
#include "diffusion/tiling.h"
#include "tests/diffusion/small_network.h"

BOOST_AUTO_TEST_SUITE(sampling_memory)

BOOST_AUTO_TEST_CASE(later_steps_take_no_memory) {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
  using namespace cirrus;
  const c10::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // each thread has a heap of its own
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const char* name : {"dpmpp", "heun"}) {
      diffusion::EdmConfig config;
      diffusion::EdmNetwork network(config, 1, at::kCPU, type);
      diffusion::perturb_gains(network, 0.5);
      network.prepare_for_sampling(type);
      const at::Tensor maps = test::normals({config.condition_maps, 96, 96}, 1),
                       scalars = test::normals({config.condition_scalars}, 2), noise = test::normals({2, 1, 96, 96}, 3);
      const auto axis = [&] { return diffusion::plan_axis(96, 64, 16, false, 0, network.alignment()); };
      diffusion::TiledDenoiser denoise(network, device::cpu(), maps, scalars, axis(), axis(), 4);
      struct Memory {
        std::size_t used, held;
      };
      std::vector<Memory> seen;
      diffusion::SamplerOptions options;
      options.name = name;
      options.steps = 8;
      diffusion::sample(
          options,
          [&](const at::Tensor& x, double sigma) {
            const at::Tensor estimate = denoise(x, sigma);
            const struct mallinfo2 info = mallinfo2();
            seen.push_back({info.uordblks + info.hblkhd, info.arena + info.hblkhd});
            return estimate;
          },
          [&](std::uint32_t) { return noise; });
      BOOST_TEST_REQUIRE(seen.size() >= 8);
      // Heun's steps hold up to three states of 72 KiB more at one evaluation than at another.
      for (std::size_t i = 3; i < seen.size(); ++i) {
        BOOST_TEST(seen[i].used < seen[2].used + 256 * 1024,
                   name << ", evaluation " << i << ": " << seen[2].used << " bytes in use, then " << seen[i].used);
        BOOST_TEST(seen[i].held == seen[2].held, name << ", evaluation " << i);
      }
    }
  at::set_num_threads(threads);
#else
  BOOST_TEST_MESSAGE("skipped: another allocator than glibc's");
#endif
}

BOOST_AUTO_TEST_SUITE_END()
