// Writing and reading checkpoint folders.
#include "dist/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/safetensors.h"

namespace cirrus::dist {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "cirrus-checkpoint/1";
constexpr const char* kManifest = "manifest.json";

std::string numbered(const char* pattern, std::int64_t n) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, static_cast<long long>(n));
  return text;
}

/// Step folders under dir, newest first.
std::vector<fs::path> step_folders(const fs::path& dir) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored))
    if (entry.is_directory() && entry.path().filename().string().rfind("step-", 0) == 0) folders.push_back(entry.path());
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

nlohmann::json file_record(const fs::path& file) {
  return {{"bytes", fs::file_size(file)}, {"sha256", sha256_file(file)}};
}

}  // namespace

fs::path save_checkpoint(const fs::path& dir, const Checkpoint& checkpoint, const World& world, int keep) {
  const fs::path folder = dir / numbered("step-%08lld", checkpoint.step);
  std::error_code error;
  fs::remove_all(folder, error);  // what an earlier, killed run left under this name
  fs::create_directories(folder, error);
  if (error) throw Error(ExitCode::cannot_create, "Cannot make " + folder.string() + ": " + error.message(), "choose another --out, or free space");
  const std::string shard = numbered("rank-%05lld.safetensors", world.rank);
  save_tensors(folder / shard, checkpoint.tensors, {}, true);

  nlohmann::ordered_json manifest;
  manifest["format"] = kFormat;
  manifest["step"] = checkpoint.step;
  manifest["samples"] = checkpoint.samples;
  manifest["world"] = world.size;
  manifest["strategy"] = checkpoint.strategy;
  manifest["config_sha256"] = checkpoint.config_sha256;
  const std::string written = read_text(folder / shard);
  const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(written)), written.size(), (folder / shard).string());
  for (const TensorEntry& e : header.entries) {
    const auto n = static_cast<std::int64_t>((e.end - e.begin) / dtype_size(e.dtype));
    manifest["tensors"][e.name] = {{"dtype", e.dtype}, {"shape", e.shape}, {"shards", {{{"file", shard}, {"offset", header.data_offset + e.begin}, {"begin", 0}, {"end", n}}}}};
  }
  manifest["files"][shard] = file_record(folder / shard);
  manifest["state"] = checkpoint.state;
  write_text(folder / kManifest, manifest.dump(1) + "\n", true);

  int kept = 0;
  for (const fs::path& old : step_folders(dir))
    if (fs::exists(old / kManifest) && ++kept > keep) {
      fs::remove(old / kManifest, error);  // first, so that a half-removed folder is no checkpoint
      fs::remove_all(old, error);
    }
  return folder;
}

Checkpoint load_checkpoint(const fs::path& folder) {
  const fs::path path = folder / kManifest;
  Checkpoint out;
  try {
    const nlohmann::json manifest = nlohmann::json::parse(read_text(path));
    if (manifest.at("format") != kFormat) throw Error(ExitCode::bad_data, path.string() + ": format is " + manifest.at("format").dump() + ", expected \"" + kFormat + "\"");
    for (const auto& [name, record] : manifest.at("files").items()) {
      const fs::path file = folder / name;
      std::error_code error;
      if (fs::file_size(file, error) != record.at("bytes").get<std::uint64_t>() || error) throw Error(ExitCode::bad_data, file.string() + ": missing or of another size than its manifest says");
      if (sha256_file(file) != record.at("sha256").get<std::string>()) throw Error(ExitCode::bad_data, file.string() + ": its sha256 differs from the manifest's");
    }
    out.step = manifest.at("step");
    out.samples = manifest.at("samples");
    out.strategy = manifest.at("strategy");
    out.config_sha256 = manifest.at("config_sha256");
    out.state = manifest.at("state");
    std::map<std::string, std::string> contents;
    for (const auto& [name, record] : manifest.at("files").items()) contents[name] = read_text(folder / name);
    for (const auto& [name, entry] : manifest.at("tensors").items()) {
      const at::Tensor t = at::empty(entry.at("shape").get<std::vector<std::int64_t>>(), dtype_of_code(entry.at("dtype")));
      std::int64_t filled = 0;
      for (const auto& part : entry.at("shards")) {
        const std::string& bytes = contents.at(part.at("file").get<std::string>());
        const auto begin = part.at("begin").get<std::int64_t>(), end = part.at("end").get<std::int64_t>();
        const auto offset = part.at("offset").get<std::uint64_t>();
        const std::uint64_t size = static_cast<std::uint64_t>(end - begin) * t.element_size();
        if (begin < 0 || end < begin || end > t.numel() || offset > bytes.size() || size > bytes.size() - offset)
          throw Error(ExitCode::bad_data, path.string() + ": a shard of '" + name + "' lies outside its file or tensor");
        std::memcpy(static_cast<char*>(t.data_ptr()) + static_cast<std::uint64_t>(begin) * t.element_size(), bytes.data() + offset, size);
        filled += end - begin;
      }
      if (filled != t.numel()) throw Error(ExitCode::bad_data, path.string() + ": shards of '" + name + "' do not cover it");
      out.tensors.emplace_back(name, t);
    }
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, path.string() + ": " + e.what());
  } catch (const std::out_of_range& e) {
    throw Error(ExitCode::bad_data, path.string() + ": names a file it does not list");
  }
  return out;
}

std::optional<Checkpoint> load_newest_checkpoint(const fs::path& dir) {
  for (const fs::path& folder : step_folders(dir)) {
    if (!fs::exists(folder / kManifest)) {
      log::warning(folder.string() + " has no manifest.json (its writing was cut off): skipped");
      continue;
    }
    try {
      return load_checkpoint(folder);
    } catch (const Error& e) {
      log::warning("Checkpoint skipped: " + std::string(e.what()));
    }
  }
  return std::nullopt;
}

}  // namespace cirrus::dist
