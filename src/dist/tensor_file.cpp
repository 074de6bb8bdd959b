// Conversion between ATen tensors and safetensors entries.
#include "dist/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/errors.h"
#include "base/safetensors.h"

namespace cirrus::dist {
namespace {
const std::vector<std::pair<std::string, at::ScalarType>> kCodes{
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
    {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool}};
}  // namespace

std::string dtype_code(at::ScalarType type) {
  for (const auto& [code, t] : kCodes)
    if (t == type) return code;
  throw Error(ExitCode::internal, std::string("No safetensors dtype for ") + c10::toString(type));
}

at::Tensor empty_tensor(const std::vector<std::int64_t>& shape, const std::string& code, std::uint64_t available,
                        const std::string& where) {
  const auto known = std::find_if(kCodes.begin(), kCodes.end(), [&](const auto& c) { return c.first == code; });
  if (known == kCodes.end()) throw Error(ExitCode::bad_data, where + " has dtype " + code + ", which is not supported");
  unsigned __int128 bytes = c10::elementSize(known->second);
  unsigned __int128 extent = 1;  // as strides count: an empty dimension is one
  for (const std::int64_t n : shape) {
    bytes *= static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0));
    extent *= static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1));
    if (n < 0 || bytes > available || extent > std::uint64_t{1} << 48)
      throw Error(ExitCode::bad_data,
                  where + " has an impossible shape: " + (std::ostringstream() << at::IntArrayRef(shape)).str());
  }
  return at::empty(shape, known->second);
}

void save_tensors(const std::filesystem::path& path, const NamedTensors& tensors,
                  const std::map<std::string, std::string>& metadata, bool overwrite) {
  std::vector<at::Tensor> kept;
  std::vector<TensorBytes> entries;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor t = kept.emplace_back(tensor.detach().cpu().contiguous());
    entries.push_back({name,
                       dtype_code(t.scalar_type()),
                       t.sizes().vec(),
                       {static_cast<const std::byte*>(t.data_ptr()), t.nbytes()}});
  }
  write_safetensors(path, entries, metadata, overwrite);
}

TensorFile load_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file = read_safetensors(path);
  TensorFile out{{}, file.header.metadata, path.string()};
  for (const TensorEntry& e : file.header.entries) {
    const at::Tensor t = empty_tensor(e.shape, e.dtype, e.end - e.begin, path.string() + ": tensor '" + e.name + "'");
    if (t.numel() > 0) std::memcpy(t.data_ptr(), file.bytes(e).data(), t.nbytes());
    out.tensors.emplace_back(e.name, t);
  }
  return out;
}

const at::Tensor& TensorFile::get(const std::string& name, at::IntArrayRef shape) const {
  for (const auto& [n, t] : tensors)
    if (n == name) {
      if (t.sizes() != shape) {
        std::ostringstream text;
        text << path << ": tensor '" << name << "' has shape " << t.sizes() << ", expected " << shape;
        throw Error(ExitCode::bad_data, text.str());
      }
      return t;
    }
  throw Error(ExitCode::bad_data, path + ": tensor '" + name + "' is missing");
}

}  // namespace cirrus::dist
