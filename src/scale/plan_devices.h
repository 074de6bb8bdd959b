// Devices a plan can be made for: memory, peak rates and links, each with its source. Nothing here is measured by
// Cirrus.
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace cirrus::scale {

/// Bandwidths are one way, of one device, in GB/s (10^9 bytes).
struct PlanDevice {
  std::string name;
  std::string full_name;
  double memory = 0;                    ///< GiB
  double fp32 = 0, fp16 = 0, bf16 = 0;  ///< dense TFLOP/s; 0: not published, or none
  int per_host = 1;
  double to_all = 0;   ///< within a host, where any device reaches any other at full rate
  double to_each = 0;  ///< or to each of the others of its host, where all are wired to all
  double between = 0;  ///< between hosts
  std::string source;

  double peak(at::ScalarType type) const {
    return type == at::kFloat ? fp32 : type == at::kHalf ? fp16 : type == at::kBFloat16 ? bf16 : 0;
  }
  /// GB/s that one of `n` ranks in a host sends at while all talk to all. 0: not known.
  double within(int n) const { return to_each > 0 ? to_each * (n - 1) : to_all; }
};

const std::vector<PlanDevice>& plan_devices();
/// Throws Error(usage) that names the nearest.
const PlanDevice& plan_device(const std::string& name);

}  // namespace cirrus::scale
