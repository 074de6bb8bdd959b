// The safetensors container without torch: a JSON header of names, types, shapes and byte ranges, then the bytes.
// Format: huggingface/safetensors, "Format". Every number of a file is checked against the file before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace cirrus {

/// One tensor of a file. dtype as the format spells it: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
struct TensorEntry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes from the end of the header
};

/// Bytes of one element, 0 for an unknown dtype.
std::size_t dtype_size(const std::string& dtype);

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  ///< in file order
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  ///< of the first byte after the header, in the file
};

/// Parses and checks the header of a file of `file_size` bytes that begins with `bytes` (at least the header). `name`
/// is for messages. Throws Error(bad_data) naming the field: ranges outside the file, overlapping or with holes, sizes
/// that do not match dtype and shape, header longer than 100 MB.
SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, std::uint64_t file_size, const std::string& name);

/// A file read whole.
struct SafetensorsFile {
  SafetensorsHeader header;
  std::string contents;
  std::span<const std::byte> bytes(const TensorEntry& entry) const {
    return std::as_bytes(std::span(contents)).subspan(header.data_offset + entry.begin, entry.end - entry.begin);
  }
};
SafetensorsFile read_safetensors(const std::filesystem::path& path);
/// The header alone.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

/// Writes a file whose tensors come one after another, so that they need not be in memory together. Atomic: nothing
/// exists under the final name before commit(). Equal input gives equal bytes; data are aligned to 8 bytes.
class SafetensorsWriter {
public:
  struct Entry {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<Entry>& entries,
                    const std::map<std::string, std::string>& metadata, bool overwrite);
  /// The bytes of the entries, in their order, in pieces of any size. Throws Error(io).
  void write(std::span<const std::byte> bytes);
  void commit();

private:
  AtomicFile file_;
  std::uint64_t missing_ = 0;
};

/// A tensor to write; the bytes must outlive the call.
struct TensorBytes {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};
/// The same for tensors that are all at hand.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata, bool overwrite);

}  // namespace cirrus
