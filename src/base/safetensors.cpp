// Reading and writing safetensors.
#include "base/safetensors.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "base/files.h"

namespace cirrus {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file + ": not a valid safetensors file: " + what,
              "the file is damaged or of another format");
}

TensorEntry parse_entry(const std::string& name, const nlohmann::json& item, std::uint64_t data_size,
                        const std::string& file) {
  TensorEntry e;
  e.name = name;
  try {
    e.dtype = item.at("dtype").get<std::string>();
    if (!item.at("shape").is_array()) refuse(file, "shape of '" + name + "' is " + item.at("shape").dump());
    for (const auto& n : item.at("shape")) {
      if (!n.is_number_unsigned()) refuse(file, "shape of '" + name + "' holds " + n.dump());
      const std::uint64_t v = n.get<std::uint64_t>();
      if (v > INT64_MAX) refuse(file, "shape of '" + name + "' holds " + n.dump());
      e.shape.push_back(static_cast<std::int64_t>(v));
    }
    const auto& range = item.at("data_offsets");
    if (range.size() != 2 || !range[0].is_number_unsigned() || !range[1].is_number_unsigned())
      refuse(file, "data_offsets of '" + name + "' is " + range.dump());
    e.begin = range[0];
    e.end = range[1];
  } catch (const nlohmann::json::exception& x) {
    refuse(file, "entry of '" + name + "': " + x.what());
  }
  if (e.begin > e.end || e.end > data_size)
    refuse(file, "data_offsets of '" + name + "' lie outside the file (" + std::to_string(e.begin) + " to " +
                     std::to_string(e.end) + " of " + std::to_string(data_size) + " bytes)");
  const std::size_t size = dtype_size(e.dtype);
  if (size == 0) refuse(file, "dtype of '" + name + "' is " + e.dtype);
  unsigned __int128 bytes = size;
  for (std::int64_t n : e.shape) {
    bytes *= static_cast<std::uint64_t>(n);
    if (bytes > data_size) break;
  }
  if (bytes != e.end - e.begin) refuse(file, "data_offsets of '" + name + "' do not match its dtype and shape");
  return e;
}

}  // namespace

std::size_t dtype_size(const std::string& dtype) {
  static const std::map<std::string, std::size_t> sizes{{"F64", 8}, {"F32", 4},  {"F16", 2},     {"BF16", 2},
                                                        {"I64", 8}, {"I32", 4},  {"I16", 2},     {"I8", 1},
                                                        {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  const auto it = sizes.find(dtype);
  return it == sizes.end() ? 0 : it->second;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, std::uint64_t file_size,
                                    const std::string& file) {
  if (file_size < 8 || bytes.size() < 8) refuse(file, "it is shorter than 8 bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);  // little-endian, as every machine Cirrus runs on
  if (length > kLongestHeader || length > file_size - 8 || length > bytes.size() - 8)
    refuse(file, "its header is said to be " + std::to_string(length) + " bytes long");
  const char* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  // Duplicate names would hide a tensor: the parser sees every key.
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(value.get<std::string>()).second)
      duplicate = value.get<std::string>();
    if (event == nlohmann::json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    return true;
  };
  const nlohmann::json json = nlohmann::json::parse(text, text + length, watch, false);
  if (json.is_discarded() || !json.is_object()) refuse(file, "its header is not a JSON object");
  if (!duplicate.empty()) refuse(file, "'" + duplicate + "' stands twice in its header");

  SafetensorsHeader header;
  header.data_offset = 8 + length;
  const std::uint64_t data_size = file_size - header.data_offset;
  for (const auto& [name, item] : json.items()) {
    if (name != "__metadata__") {
      header.entries.push_back(parse_entry(name, item, data_size, file));
      continue;
    }
    if (!item.is_object()) refuse(file, "__metadata__ is not an object");
    for (const auto& [key, value] : item.items()) {
      if (!value.is_string()) refuse(file, "__metadata__ '" + key + "' is not a string");
      header.metadata[key] = value.get<std::string>();
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const TensorEntry& e : header.entries) {
    if (e.begin != at) refuse(file, "data_offsets of '" + e.name + "' overlap another tensor or leave a hole");
    at = e.end;
  }
  if (at != data_size) refuse(file, std::to_string(data_size - at) + " bytes at its end belong to no tensor");
  return header;
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.contents = read_text(path);
  file.header = parse_safetensors(std::as_bytes(std::span(file.contents)), file.contents.size(), path.string());
  return file;
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (!in || error)
    throw Error(ExitCode::no_input, "cannot open " + path.string(), "check the name and its permissions");
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string text(8 + std::min({length, kLongestHeader, size}), '\0');
  in.clear();
  in.seekg(0).read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return parse_safetensors(std::as_bytes(std::span(text)), size, path.string());
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<Entry>& entries,
                                     const std::map<std::string, std::string>& metadata, bool overwrite)
    : file_(path, overwrite) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const Entry& e : entries) {
    std::uint64_t bytes = dtype_size(e.dtype);
    for (const std::int64_t n : e.shape) bytes *= static_cast<std::uint64_t>(n);
    header[e.name] = {{"dtype", e.dtype}, {"shape", e.shape}, {"data_offsets", {missing_, missing_ + bytes}}};
    missing_ += bytes;
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  file_.write(std::string_view(reinterpret_cast<const char*>(&length), 8));
  file_.write(text);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_)
    throw Error(ExitCode::internal, file_.target().string() + ": more bytes than its header has");
  missing_ -= bytes.size();
  file_.write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void SafetensorsWriter::commit() {
  if (missing_ != 0)
    throw Error(ExitCode::internal,
                file_.target().string() + ": " + std::to_string(missing_) + " bytes of its header's were not written");
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, const std::vector<TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata, bool overwrite) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const TensorBytes& t : tensors) entries.push_back({t.name, t.dtype, t.shape});
  SafetensorsWriter file(path, entries, metadata, overwrite);
  for (const TensorBytes& t : tensors) file.write(t.bytes);
  file.commit();
}

}  // namespace cirrus
