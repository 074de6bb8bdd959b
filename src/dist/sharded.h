// Training with optimizer states, gradients and weights in shards. One engine for all strategies, which differ in what
// stays whole between uses, in how tensors are cut, and in when gradients are reduced:
//
//            trained weights            gradients reduced    cut
//   zero1    whole, gathered a step     once a step          flat
//   zero2    whole, gathered a step     every part           flat
//   zero3    small whole, others freed  every part           every tensor by itself
//   fsdp     freed outside their unit   every part           a unit's tensors together
//   hybrid   as fsdp within a host; shards' gradients are summed across hosts once a step
//
// Collectives are issued in an order that depends on the units alone, not on what a rank's graph happens to use, so
// that ranks never wait for different things.
#pragma once

#include "dist/flat_group.h"

namespace cirrus::dist {

class Sharded : public Parallel, public UnitRunner {
public:
  Sharded(const std::vector<Unit>& units, const ParallelOptions& options, const World& world, device::Device& device);
  ~Sharded() override;

  UnitRunner& runner() override { return *this; }
  Tensors run(std::size_t index, const Tensors& inputs, const Work& work) override;

  std::vector<Piece> pieces() const override;
  bool owns(const Piece& piece) const override;
  void begin_part(bool last) override;
  void backward(const at::Tensor& loss) override;
  std::vector<at::Tensor> gradients() override;
  void forget_gradients() override;
  void combine(const at::Tensor& values, Reduce op) override;
  void force_unit_rows(const std::vector<std::string>& names) override;
  void weights_changed() override;
  void finish() override;
  void consolidate(const std::vector<at::Tensor>& tensors, const Take& take) override;
  Traffic traffic() const override;
  void reset_traffic() override;
  std::int64_t peak_live_bytes() const override { return live_.peak; }

private:
  /// One flat group of a unit and the parameters in it.
  struct Member {
    std::unique_ptr<FlatGroup> group;
    std::vector<std::size_t> parameters;  ///< empty: frozen
  };
  struct Block {
    std::vector<Member> members;
    std::vector<at::Tensor> leaves;    ///< its trained parameters
    std::vector<std::size_t> numbers;  ///< of those
  };

  void add_member(Block& block, const std::vector<std::pair<std::size_t, at::Tensor>>& tensors, bool small);
  void gather(std::size_t index);
  void prefetch(std::size_t index);
  void release(std::size_t index);
  void catch_up_forward(std::size_t index);
  void before_backward_of(std::size_t index);
  void begin_reduce(std::size_t index);
  void finish_reduce();

  const ParallelOptions options_;
  const bool by_reference_;
  std::shared_ptr<ProcessGroup> gathers_, reductions_, across_;
  LiveBytes live_;
  std::vector<Block> blocks_;
  std::vector<std::pair<std::size_t, std::size_t>> place_of_weight_;  ///< block and member of weights()[i]
  bool reduces_ = true;                                               ///< gradients of this part
  std::size_t next_forward_ = 1;                                      ///< units before have run in this forward pass
  std::size_t next_backward_ = 0;  ///< units from here on have been entered in this backward pass
  std::size_t next_reduce_ = 0;    ///< units from here on have had their reductions begun
  std::vector<char> used_;         ///< parameters that got a gradient in this step
  std::size_t reducing_ = 0;       ///< the unit whose gradients travel
};

}  // namespace cirrus::dist
