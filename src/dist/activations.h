// What the parts of a model take of a device's memory in training beside their weights: what a network knows of itself,
// and what planning asks it for (train/memory_plan.h).
#pragma once

#include <vector>

namespace cirrus::dist {

/// Bytes, of all samples that are computed at a time.
struct Activations {
  double kept = 0;      ///< inside, for the backward pass; recomputed units have it during their backward pass alone
  double output = 0;    ///< handed on, and there until the unit's own backward pass is over
  double working = 0;   ///< the most that comes and goes at a time while the unit computes, beyond those
  double consumed = 0;  ///< of what the unit before handed on: kept by nobody once this one has run, unless recomputed
};

struct ModelActivations {
  std::vector<Activations> units;  ///< in the order of the model's units; [0]: what comes before the first block
  Activations head;                ///< after the last block: head, logits, loss
};

}  // namespace cirrus::dist
