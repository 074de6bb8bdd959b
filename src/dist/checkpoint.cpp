// Writing checkpoint folders.
#include "dist/checkpoint.h"

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/safetensors.h"
#include "dist/connection.h"

namespace cirrus::dist {
namespace {

namespace fs = std::filesystem;

std::string numbered(const char* pattern, std::int64_t n) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, static_cast<long long>(n));
  return text;
}

/// Removes a checkpoint; its manifest first, so that a half-removed folder is none.
void remove_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(folder / kManifest, ignored);
  fs::remove_all(folder, ignored);
}

std::span<const std::byte> bytes_of(const at::Tensor& t) {
  return {static_cast<const std::byte*>(t.data_ptr()), t.nbytes()};
}

bool in_rows(const Parameter& p) { return std::is_sorted(p.order.begin(), p.order.end()); }

}  // namespace

Slice whole_slice(const std::string& name, const at::Tensor& tensor) {
  return {name, describe(name, tensor), 0, in_memory_order(tensor)};
}

struct CheckpointWriter::Job {
  Checkpoint checkpoint;
  std::vector<Slice> slices;
  fs::path folder;
  std::string file, key;
  c10::intrusive_ptr<c10d::Store> store;  ///< null in a world of one
};

CheckpointWriter::CheckpointWriter(fs::path dir, const World& world, int keep)
    : dir_(std::move(dir)), world_(world), keep_(std::max(keep, 1)) {}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::finish() {
  if (thread_.joinable()) thread_.join();
  if (!error_) return;
  const std::exception_ptr error = std::exchange(error_, nullptr);
  std::rethrow_exception(error);
}

void CheckpointWriter::save(const Checkpoint& checkpoint, const std::vector<Slice>& slices, bool in_background) {
  finish();
  Job job{checkpoint, slices, dir_ / numbered("step-%08lld", checkpoint.step), {}, {}, {}};
  job.checkpoint.world = world_.size;
  job.file = numbered("rank-%05lld.safetensors", world_.rank);
  std::error_code error;
  if (world_.is_lead()) {
    remove_checkpoint(job.folder);  // what an earlier, killed run left under this name
    fs::create_directories(job.folder, error);
    if (error)
      throw Error(ExitCode::cannot_create, "Cannot make " + job.folder.string() + ": " + error.message(),
                  "choose another --out, or free space");
  }
  if (world_.size > 1) {
    barrier(world_);
    if (!fs::is_directory(job.folder, error))
      throw Error(ExitCode::cannot_create,
                  world_.host + " does not see " + job.folder.string() + ", which rank 0 has made",
                  "choose an --out on a file system that all hosts share");
    job.key = "checkpoint/" + std::to_string(number_++) + "/";
    job.store = world_.connection->meeting().connect();
  }
  if (!in_background) {
    write(job);
    if (world_.size > 1) barrier(world_);  // it counts once the lead has written the manifest
    return;
  }
  for (Slice& s : job.slices) s.elements = s.elements.to(at::kCPU, false, true);
  thread_ = std::thread([this, work = std::move(job)] {
    try {
      write(work);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

void CheckpointWriter::write(const Job& job) {
  const double started = steady_seconds();
  nlohmann::json mine;
  try {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const Slice& s : job.slices) {
      const bool whole = s.elements.numel() == s.whole.numel && in_rows(s.whole);
      entries.push_back({s.name, dtype_code(s.elements.scalar_type()),
                         whole ? s.whole.shape : std::vector<std::int64_t>{s.elements.numel()}});
    }
    const fs::path path = job.folder / job.file;
    SafetensorsWriter file(path, entries, {}, true);
    for (const Slice& s : job.slices) file.write(bytes_of(s.elements.cpu().contiguous()));
    file.commit();
    const SafetensorsHeader header = read_safetensors_header(path);
    std::map<std::string, const TensorEntry*> written;
    for (const TensorEntry& e : header.entries) written[e.name] = &e;
    mine["tensors"] = nlohmann::json::object();
    for (const Slice& s : job.slices) {
      const TensorEntry& e = *written.at(s.name);
      nlohmann::json& t = mine["tensors"][s.name];
      t = {{"dtype", e.dtype},
           {"shape", s.whole.shape},
           {"shards",
            {{{"file", job.file},
              {"offset", header.data_offset + e.begin},
              {"begin", s.begin},
              {"end", s.begin + s.elements.numel()}}}}};
      if (!in_rows(s.whole)) t["order"] = s.whole.order;
    }
    mine["files"][job.file] = {{"bytes", fs::file_size(path)}, {"sha256", sha256_file(path)}};
  } catch (const std::exception& e) {
    // The lead must not wait for what will not come.
    if (job.store) job.store->set(job.key + std::to_string(world_.rank), nlohmann::json{{"error", e.what()}}.dump());
    throw;
  }
  if (job.store && !world_.is_lead()) job.store->set(job.key + std::to_string(world_.rank), mine.dump());
  if (world_.is_lead()) commit(job, std::move(mine));
  seconds_ = steady_seconds() - started;
}

/// On the lead: waits for the other ranks' files, then writes the manifest, with which the checkpoint begins to count.
void CheckpointWriter::commit(const Job& job, nlohmann::json all) {
  for (int rank = 1; rank < world_.size; ++rank) {
    const std::string key = job.key + std::to_string(rank);
    job.store->setTimeout(std::chrono::hours(24));  // slow disks; a rank that dies is the watchdog's business
    const nlohmann::json theirs = nlohmann::json::parse(job.store->get_to_str(key));
    job.store->deleteKey(key);
    if (theirs.contains("error"))
      throw Error(ExitCode::io, "Rank " + std::to_string(rank) + " could not write its part of " + job.folder.string() +
                                    ": " + theirs.at("error").get<std::string>());
    for (const auto& [name, file] : theirs.at("files").items()) all["files"][name] = file;
    for (const auto& [name, tensor] : theirs.at("tensors").items()) {
      if (!all["tensors"].contains(name)) {
        all["tensors"][name] = tensor;
        continue;
      }
      for (const auto& shard : tensor.at("shards")) all["tensors"][name]["shards"].push_back(shard);
    }
  }
  for (auto& [name, tensor] : all["tensors"].items()) {
    std::vector<nlohmann::json> shards = tensor.at("shards");
    std::sort(shards.begin(), shards.end(), [](const auto& a, const auto& b) { return a.at("begin") < b.at("begin"); });
    tensor["shards"] = shards;
  }
  nlohmann::ordered_json manifest;
  manifest["format"] = kCheckpointFormat;
  manifest["step"] = job.checkpoint.step;
  manifest["samples"] = job.checkpoint.samples;
  manifest["world"] = job.checkpoint.world;
  manifest["strategy"] = job.checkpoint.strategy;
  manifest["config_sha256"] = job.checkpoint.config_sha256;
  manifest["tensors"] = all.at("tensors");
  manifest["files"] = all.at("files");
  manifest["state"] = job.checkpoint.state;
  write_text(job.folder / kManifest, manifest.dump(1) + "\n", true);
  log::info("Step " + std::to_string(job.checkpoint.step) + ": checkpoint " + job.folder.string());

  // Later steps belong to a course that was given up (their checkpoints were damaged); folders without manifest to
  // killed runs.
  int kept = 0;
  std::error_code error;
  for (const auto& [step, old] : step_folders(dir_)) {
    const bool whole = fs::exists(old / kManifest, error);
    if (step > job.checkpoint.step || !whole || ++kept > keep_) remove_checkpoint(old);
  }
}

}  // namespace cirrus::dist
