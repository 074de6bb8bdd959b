// The table of devices.
#include "scale/plan_devices.h"

#include "base/errors.h"
#include "base/nearest.h"

namespace cirrus::scale {

const std::vector<PlanDevice>& plan_devices() {
  static const std::string volta =
      "NVIDIA V100 data sheet (2020): NVLink 2 at 300 GB/s both ways; one HDR100 port a host of four (SDSC Expanse)";
  static const std::string ampere =
      "NVIDIA A100 data sheet (2021): NVLink 3 at 600 GB/s both ways; four Slingshot 11 ports of 25 GB/s a host (NERSC "
      "Perlmutter)";
  static const std::vector<PlanDevice> devices{
      {"v100-16", "NVIDIA V100 SXM2 16 GB", 16, 15.7, 125, 0, 4, 150, 0, 3.1, volta},
      {"v100-32", "NVIDIA V100 SXM2 32 GB", 32, 15.7, 125, 0, 4, 150, 0, 3.1, volta},
      {"a100-40", "NVIDIA A100 SXM4 40 GB", 40, 19.5, 312, 312, 4, 300, 0, 25, ampere},
      {"a100-80", "NVIDIA A100 SXM4 80 GB", 80, 19.5, 312, 312, 4, 300, 0, 25, ampere},
      {"h100-80", "NVIDIA H100 SXM5 80 GB", 80, 67, 989.4, 989.4, 8, 450, 0, 50,
       "NVIDIA H100 data sheet (2023): NVLink 4 at 900 GB/s both ways; one NDR port a device (DGX H100)"},
      {"gaudi1", "Intel Gaudi HL-205", 32, 0, 0, 0, 8, 0, 12.5, 37.5,
       "Habana HL-205 pages (2019): no peak rates; ten ports of 100 Gb/s, one to each of seven, three out"},
      {"gaudi2", "Intel Gaudi 2 HL-225", 96, 0, 0, 432, 8, 0, 37.5, 37.5,
       "Intel document 839363 (2024): 24 ports of 100 Gb/s, three to each of seven, three out"},
      {"gaudi3", "Intel Gaudi 3 HL-325L", 128, 229, 459, 1677, 8, 0, 75, 75,
       "Intel document 817486 (2024), bf16 at the real clock of 1.6 GHz: 24 ports of 200 Gb/s, three to each of seven, "
       "three out"},
  };
  return devices;
}

const PlanDevice& plan_device(const std::string& name) {
  std::vector<std::string> known;
  for (const PlanDevice& d : plan_devices()) {
    if (d.name == name) return d;
    known.push_back(d.name);
  }
  known.insert(known.end(), {"cpu", "other"});
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  throw Error(ExitCode::usage,
              "There is no device '" + name + "' in the table (did you mean " + nearest_name(name, known) + "?)",
              "known: " + all + "; other takes --memory, --tflops and --bandwidth");
}

}  // namespace cirrus::scale
