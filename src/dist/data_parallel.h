// Every rank has the whole model: on one rank plainly, on several with c10d's Reducer, the engine of PyTorch's own data
// parallel, which sums gradients in buckets while the backward pass goes on. Only data_parallel.cpp knows its versions.
#pragma once

#include "dist/parallel.h"
#include "dist/process_group.h"

namespace cirrus::dist {

class DataParallel : public Parallel {
public:
  DataParallel(const std::vector<Unit>& units, const ParallelOptions& options, const World& world,
               device::Device& device);
  ~DataParallel() override;

  UnitRunner& runner() override;
  std::vector<Piece> pieces() const override;
  bool owns(const Piece& piece) const override;
  void begin_part(bool last) override;
  void backward(const at::Tensor& loss) override;
  std::vector<at::Tensor> gradients() override;
  void forget_gradients() override;
  void combine(const at::Tensor&, Reduce) override {}
  void force_unit_rows(const std::vector<std::string>& names) override;
  void weights_changed() override {}
  void consolidate(const std::vector<at::Tensor>& tensors, const Take& take) override;
  Traffic traffic() const override { return group_->traffic(); }
  void reset_traffic() override { group_->reset_traffic(); }

private:
  struct Engine;
  class Plain;
  const ParallelOptions options_;
  std::vector<at::Tensor> leaves_;
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<Plain> runner_;
  std::vector<char> fired_;  ///< parameters whose gradient came in this part
  std::vector<char> used_;   ///< in this step
  bool last_ = true;
  std::unique_ptr<Engine> engine_;  ///< null on one rank
};

}  // namespace cirrus::dist
