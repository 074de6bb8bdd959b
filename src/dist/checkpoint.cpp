// Writing and reading checkpoint folders.
#include "dist/checkpoint.h"

#include <algorithm>
#include <charconv>
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

/// Folders step-N under dir with their N, newest first (by number: names of more than eight digits sort otherwise).
std::vector<std::pair<std::int64_t, fs::path>> step_folders(const fs::path& dir) {
  std::vector<std::pair<std::int64_t, fs::path>> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with("step-") || !entry.is_directory(ignored)) continue;
    const auto [end, failure] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (failure == std::errc() && end == name.data() + name.size() && step >= 0)
      folders.emplace_back(step, entry.path());
  }
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

/// Removes a checkpoint; its manifest first, so that a half-removed folder is none.
void remove_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(folder / kManifest, ignored);
  fs::remove_all(folder, ignored);
}

/// One entry of a manifest's "tensors", filled from the contents of its files.
at::Tensor read_tensor(const nlohmann::json& entry, const std::map<std::string, std::string>& contents,
                       const std::string& where) {
  std::uint64_t available = 0;
  for (const auto& [file, bytes] : contents) available += bytes.size();
  const at::Tensor t = empty_tensor(entry.at("shape").get<std::vector<std::int64_t>>(),
                                    entry.at("dtype").get<std::string>(), available, where);
  const std::uint64_t element = t.element_size(), count = static_cast<std::uint64_t>(t.numel());
  std::uint64_t filled = 0;  // elements: shards follow each other
  for (const auto& part : entry.at("shards")) {
    const std::string& bytes = contents.at(part.at("file").get<std::string>());
    for (const char* key : {"begin", "end", "offset"})
      if (!part.at(key).is_number_unsigned())
        throw Error(ExitCode::bad_data, where + " has a shard whose " + key + " is " + part.at(key).dump());
    const std::uint64_t begin = part.at("begin"), end = part.at("end"), offset = part.at("offset");
    if (begin != filled || end < begin || end > count || offset > bytes.size() ||
        (end - begin) * element > bytes.size() - offset)
      throw Error(ExitCode::bad_data, where + " has a shard outside its file or tensor");
    if (end > begin)
      std::memcpy(static_cast<char*>(t.data_ptr()) + begin * element, bytes.data() + offset, (end - begin) * element);
    filled = end;
  }
  if (filled != count) throw Error(ExitCode::bad_data, where + " is not covered by its shards");
  return t;
}

}  // namespace

fs::path save_checkpoint(const fs::path& dir, const Checkpoint& checkpoint, const World& world, int keep) {
  const fs::path folder = dir / numbered("step-%08lld", checkpoint.step);
  std::error_code error;
  remove_checkpoint(folder);  // what an earlier, killed run left under this name
  fs::create_directories(folder, error);
  if (error)
    throw Error(ExitCode::cannot_create, "Cannot make " + folder.string() + ": " + error.message(),
                "choose another --out, or free space");
  const std::string shard = numbered("rank-%05lld.safetensors", world.rank);
  save_tensors(folder / shard, checkpoint.tensors, {}, true);

  nlohmann::ordered_json manifest;
  manifest["format"] = kFormat;
  manifest["step"] = checkpoint.step;
  manifest["samples"] = checkpoint.samples;
  manifest["world"] = world.size;
  manifest["strategy"] = checkpoint.strategy;
  manifest["config_sha256"] = checkpoint.config_sha256;
  const SafetensorsHeader header = read_safetensors_header(folder / shard);
  for (const TensorEntry& e : header.entries) {
    const auto n = static_cast<std::int64_t>((e.end - e.begin) / dtype_size(e.dtype));
    manifest["tensors"][e.name] = {
        {"dtype", e.dtype},
        {"shape", e.shape},
        {"shards", {{{"file", shard}, {"offset", header.data_offset + e.begin}, {"begin", 0}, {"end", n}}}}};
  }
  manifest["files"][shard] = {{"bytes", fs::file_size(folder / shard)}, {"sha256", sha256_file(folder / shard)}};
  manifest["state"] = checkpoint.state;
  write_text(folder / kManifest, manifest.dump(1) + "\n", true);

  // Later steps belong to a course that was given up (their checkpoints were damaged); folders without manifest to
  // killed runs.
  int kept = 0;
  for (const auto& [step, old] : step_folders(dir)) {
    const bool whole = fs::exists(old / kManifest, error);
    if (step > checkpoint.step || !whole || ++kept > std::max(keep, 1)) remove_checkpoint(old);
  }
  return folder;
}

Checkpoint load_checkpoint(const fs::path& folder) {
  const fs::path path = folder / kManifest;
  Checkpoint out;
  try {
    const nlohmann::json manifest = nlohmann::json::parse(read_text(path));
    if (manifest.at("format") != kFormat)
      throw Error(ExitCode::bad_data,
                  path.string() + ": format is " + manifest.at("format").dump() + ", expected \"" + kFormat + "\"");
    std::map<std::string, std::string> contents;
    for (const auto& [name, record] : manifest.at("files").items()) {
      const fs::path file = folder / name;
      if (name != file.filename())
        throw Error(ExitCode::bad_data, path.string() + ": '" + name + "' is not the name of a file beside it");
      std::error_code error;
      if (fs::file_size(file, error) != record.at("bytes").get<std::uint64_t>() || error)
        throw Error(ExitCode::bad_data, file.string() + ": missing or of another size than its manifest says");
      contents[name] = read_text(file);
      if (sha256(contents[name]) != record.at("sha256").get<std::string>())
        throw Error(ExitCode::bad_data, file.string() + ": its sha256 differs from the manifest's");
    }
    out.step = manifest.at("step");
    out.samples = manifest.at("samples");
    out.strategy = manifest.at("strategy");
    out.config_sha256 = manifest.at("config_sha256");
    out.state = manifest.at("state");
    if (out.step < 0 || out.samples < 0)
      throw Error(ExitCode::bad_data, path.string() + ": step or samples is negative");
    for (const auto& [name, entry] : manifest.at("tensors").items())
      out.tensors.emplace_back(name, read_tensor(entry, contents, path.string() + ": tensor '" + name + "'"));
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, path.string() + ": " + e.what());
  } catch (const std::out_of_range& e) {
    throw Error(ExitCode::bad_data, path.string() + ": names a file it does not list");
  }
  return out;
}

std::optional<Checkpoint> load_newest_checkpoint(const fs::path& dir) {
  bool damaged = false;
  for (const auto& [step, folder] : step_folders(dir)) {
    if (!fs::exists(folder / kManifest)) {
      log::warning(folder.string() + " has no manifest.json (its writing was cut off): skipped");
      continue;
    }
    try {
      return load_checkpoint(folder);
    } catch (const Error& e) {
      log::warning("Checkpoint " + folder.string() + " skipped: " + e.what());
      damaged = true;
    }
  }
  if (damaged)
    throw Error(ExitCode::bad_data, "none of the checkpoints in " + dir.string() + " can be read",
                "restore one, or train anew into another folder");
  return std::nullopt;
}

}  // namespace cirrus::dist
