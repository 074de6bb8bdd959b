// Published times of training on these devices, and what is fitted to them. Sources: "Performance Optimization and
// Comparative Analysis of Generative AI Models on Advanced Accelerators" (PEARC26) and amitashnanda/
// Voyager_Gaudi_Benchmarks (MIT); values read off plots, good to 2 %. Everything made from them is called fitted.
#pragma once

#include <string>
#include <vector>

namespace cirrus::scale {

/// Minutes of an epoch of LoRA fine-tuning (rank 64 on q and v, bf16, 2 x 512 tokens a card, accumulation 2) with
/// optimum-habana, at a number of cards.
struct PublishedRun {
  std::string model, device, strategy;
  std::vector<std::pair<int, double>> minutes;
};
const std::vector<PublishedRun>& published_runs();

/// Images a second of SR3 64 -> 256 training on one device in fp32 (TF32 products on A100 and H100), batch 4; 0 where
/// nothing was published.
double published_sr3_rate(const std::string& device);

/// How much longer a step of a sharded strategy takes than one of data parallel, over the latter's time, in the
/// published runs of Gemma2-27B on Gaudi 2: a + b / cards, least squares of relative errors. The first term is what
/// does not get less with more links, the second the links, of which a card has as many more as there are others.
struct SlowdownFit {
  double a = 0, b = 0;
  std::vector<std::pair<int, double>> residuals;  ///< cards; fitted over published time of a step, minus 1
};
SlowdownFit fit_slowdown(const std::string& strategy);  ///< zero3 or fsdp

}  // namespace cirrus::scale
