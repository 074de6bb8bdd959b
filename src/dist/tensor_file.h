// Named tensors in safetensors files.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cirrus::dist {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes tensors (any device; made contiguous) atomically. Throws Error(cannot_create), Error(io).
void save_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                  const std::map<std::string, std::string>& metadata, bool overwrite);

struct TensorFile {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
  /// The tensor of that name. Throws Error(bad_data) if it is missing or has another shape.
  const at::Tensor& get(const std::string& name, at::IntArrayRef shape) const;
  std::string path;
};
/// Reads tensors onto the CPU. Throws Error(no_input), Error(bad_data).
TensorFile load_tensors(const std::filesystem::path& path);

std::string dtype_code(at::ScalarType type);  ///< "F32", ...

/// A tensor of dtype `code` to fill from a file that holds `available` bytes. Throws Error(bad_data), beginning with
/// `where`, for a type that ATen has not, and for a shape that is negative, larger than the file, or whose strides
/// overflow though it is empty.
at::Tensor empty_tensor(const std::vector<std::int64_t>& shape, const std::string& code, std::uint64_t available,
                        const std::string& where);

}  // namespace cirrus::dist
