// When a run of several ranks stops: any of them may be asked to, all must do it after the same step.
#pragma once

#include <filesystem>
#include <string>

#include "dist/world.h"

namespace cirrus::train {

class Stopping {
public:
  /// `time_limit`: seconds from now (0: none). A file OUT/stop, looked for by the lead, is a request too.
  Stopping(const dist::World& world, const std::filesystem::path& out, double time_limit);

  struct Decision {
    std::string stop;         ///< why to stop; empty: go on
    bool checkpoint = false;  ///< the lead wants one
  };
  /// All ranks call it before each step. `checkpoint_due` counts on the lead; `reserve`: seconds a last checkpoint will
  /// take.
  Decision agree(bool checkpoint_due, double reserve);

private:
  const dist::World& world_;
  const std::filesystem::path file_;
  const double started_, time_limit_;
  double looked_ = 0;
  bool file_there_ = false;
};

}  // namespace cirrus::train
