// Whether a map is like those a model was trained on.
#pragma once

#include <string>

#include "enhance/decide.h"
#include "enhance/model.h"

namespace cirrus::enhance {

/// Verdict on one map.
struct Ood {
  bool flag = false;   ///< outside what the model was trained on
  double score = 0;    ///< 1 = at the border of the trained range
  std::string reason;  ///< of the highest score, where that is above 1
};

/// Compares the map's contrast, its beam and its signal-to-noise ratio with the model's trained range.
Ood check_distribution(const Decisions& decisions, const Model& model);

}  // namespace cirrus::enhance
