// The record of a training run: one JSON line every few steps (train.jsonl), and its curves as SVG.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace cirrus::train {

struct Record {
  std::int64_t step = 0, samples = 0;
  double loss = 0, learning_rate = 0, grad_norm = 0;
  double samples_per_s = 0;
  double data_s = 0, step_s = 0;  ///< seconds a step waited for data, and took in all
};

class RecordFile {
public:
  /// Opens for appending; lines beyond `resume_step` (written after the checkpoint a run resumes from) are dropped, and
  /// a last line cut off by a kill is too.
  RecordFile(const std::filesystem::path& path, std::int64_t resume_step);
  void write(const Record& record);

private:
  std::ofstream out_;
};

/// Draws loss and learning rate over samples from the lines of train.jsonl.
void draw_curves(const std::filesystem::path& records, const std::filesystem::path& svg);

}  // namespace cirrus::train
