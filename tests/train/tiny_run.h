// The configuration of a training run that tests of `cirrus train` start from.
#pragma once

namespace cirrus::test {

// A network and a sky small enough for a step of milliseconds. Without cooldown the learning rate does not depend on
// the number of steps, so that a run may be cut anywhere and be compared with one of that length.
inline const char* const kTinyRun = R"(
factor = 4
[network]
widths = [8, 16]
middle_blocks = 1
embedding = 8
[task]
patch = 32
calibration_fields = 16
[fields]
size = 64
window = 4
per_step = 0.5
[train]
batch = 2
checkpoint_steps = 5
record_steps = 5
[optimizer]
warmup = 5
cooldown_share = 0
)";

}  // namespace cirrus::test
