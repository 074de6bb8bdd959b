// Finding and reading checkpoint folders. Every number of a manifest is checked against its files before it is used.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/safetensors.h"
#include "dist/checkpoint.h"

namespace cirrus::dist {
namespace {

namespace fs = std::filesystem;

/// Reads exactly `size` bytes at `offset`.
void read_bytes(const fs::path& path, std::uint64_t offset, char* to, std::uint64_t size) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::uint64_t done = 0;
  while (descriptor >= 0 && done < size) {
    const ssize_t n = pread(descriptor, to + done, size - done, static_cast<off_t>(offset + done));
    if (n <= 0) break;
    done += static_cast<std::uint64_t>(n);
  }
  if (descriptor >= 0) close(descriptor);
  if (done < size) throw Error(ExitCode::io, "Cannot read " + path.string(), "see whether its disk is still there");
}

}  // namespace

/// By number: names of more than eight digits sort otherwise.
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

CheckpointReader::Tensor CheckpointReader::parse_tensor(const nlohmann::json& entry, const std::string& where) const {
  std::uint64_t available = 0;
  for (const auto& [file, facts] : files_) available += facts.first;
  // Also checks type and shape. Allocates no more than the files hold, and nothing of it is touched.
  const at::Tensor t = empty_tensor(entry.at("shape").get<std::vector<std::int64_t>>(),
                                    entry.at("dtype").get<std::string>(), available, where);
  Tensor out{describe("", t), {}};
  if (entry.contains("order")) {
    out.whole.order = entry.at("order").get<std::vector<std::int64_t>>();
    std::vector<std::int64_t> sorted = out.whole.order;
    std::sort(sorted.begin(), sorted.end());
    bool permutes = sorted.size() == out.whole.shape.size();
    for (std::size_t d = 0; permutes && d < sorted.size(); ++d) permutes = sorted[d] == static_cast<std::int64_t>(d);
    if (!permutes) throw Error(ExitCode::bad_data, where + " has an order that is none");
  }
  const std::uint64_t element = t.element_size();
  for (const auto& part : entry.at("shards")) {
    const auto found = files_.find(part.at("file").get<std::string>());
    if (found == files_.end()) throw Error(ExitCode::bad_data, where + " lies in a file that is not listed");
    for (const char* key : {"begin", "end", "offset"})
      if (!part.at(key).is_number_unsigned())
        throw Error(ExitCode::bad_data, where + " has a shard whose " + key + " is " + part.at(key).dump());
    const std::uint64_t begin = part.at("begin"), end = part.at("end"), offset = part.at("offset"),
                        size = found->second.first, filled = out.parts.empty() ? 0 : out.parts.back().end;
    if (begin != filled || end < begin || end > static_cast<std::uint64_t>(out.whole.numel) || offset > size ||
        (end - begin) * element > size - offset)
      throw Error(ExitCode::bad_data, where + " has a shard outside its file or tensor");
    out.parts.push_back({found->first, offset, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
  }
  if ((out.parts.empty() ? 0 : out.parts.back().end) != out.whole.numel)
    throw Error(ExitCode::bad_data, where + " is not covered by its shards");
  return out;
}

CheckpointReader::CheckpointReader(const fs::path& folder) : folder_(folder) {
  const fs::path path = folder / kManifest;
  try {
    const nlohmann::json manifest = nlohmann::json::parse(read_text(path));
    if (manifest.at("format") != kCheckpointFormat)
      throw Error(ExitCode::bad_data, path.string() + ": format is " + manifest.at("format").dump() + ", expected \"" +
                                          kCheckpointFormat + "\"");
    for (const auto& [name, record] : manifest.at("files").items()) {
      if (name != fs::path(name).filename())
        throw Error(ExitCode::bad_data, path.string() + ": '" + name + "' is not the name of a file beside it");
      const auto bytes = record.at("bytes").get<std::uint64_t>();
      std::error_code error;
      if (fs::file_size(folder / name, error) != bytes || error)
        throw Error(ExitCode::bad_data,
                    (folder / name).string() + ": missing or of another size than its manifest says");
      files_[name] = {bytes, record.at("sha256").get<std::string>()};
    }
    checkpoint_.step = manifest.at("step");
    checkpoint_.samples = manifest.at("samples");
    checkpoint_.world = manifest.at("world");
    checkpoint_.strategy = manifest.at("strategy");
    checkpoint_.config_sha256 = manifest.at("config_sha256");
    checkpoint_.state = manifest.at("state");
    if (checkpoint_.step < 0 || checkpoint_.samples < 0)
      throw Error(ExitCode::bad_data, path.string() + ": step or samples is negative");
    for (const auto& [name, entry] : manifest.at("tensors").items())
      tensors_[name] = parse_tensor(entry, path.string() + ": tensor '" + name + "'");
  } catch (const nlohmann::json::exception& e) {
    throw Error(ExitCode::bad_data, path.string() + ": " + e.what());
  }
}

void CheckpointReader::verify(int rank, int size) const {
  int number = 0;
  for (const auto& [name, facts] : files_)
    if (number++ % size == rank && sha256_file(folder_ / name) != facts.second)
      throw Error(ExitCode::bad_data, (folder_ / name).string() + ": its sha256 differs from the manifest's");
}

const CheckpointReader::Tensor& CheckpointReader::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(ExitCode::bad_data, (folder_ / kManifest).string() + ": tensor '" + name + "' is missing");
  return found->second;
}

void CheckpointReader::read_range(const Tensor& t, std::int64_t begin, const at::Tensor& elements) const {
  const at::Tensor host = at::empty({elements.numel()}, at::TensorOptions(t.whole.type));
  const auto size = static_cast<std::int64_t>(host.element_size());
  for (const Part& part : t.parts) {
    const std::int64_t from = std::max(begin, part.begin), to = std::min(begin + elements.numel(), part.end);
    if (from < to)
      read_bytes(folder_ / part.file, part.offset + static_cast<std::uint64_t>((from - part.begin) * size),
                 static_cast<char*>(host.data_ptr()) + (from - begin) * size,
                 static_cast<std::uint64_t>((to - from) * size));
  }
  elements.copy_(host);
}

void CheckpointReader::read(const std::string& name, const Parameter& like, std::int64_t begin,
                            const at::Tensor& elements) const {
  const Tensor& t = tensor(name);
  if (t.whole.shape != like.shape)
    throw Error(ExitCode::bad_data, (folder_ / kManifest).string() + ": tensor '" + name + "' has shape " +
                                        c10::str(at::IntArrayRef(t.whole.shape)) + ", expected " +
                                        c10::str(at::IntArrayRef(like.shape)));
  if (t.whole.order == like.order) return read_range(t, begin, elements);
  const at::Tensor ordered = read(name).permute(like.order).contiguous().view(-1);
  elements.copy_(ordered.narrow(0, begin, elements.numel()));
}

at::Tensor CheckpointReader::read(const std::string& name) const {
  const Tensor& t = tensor(name);
  const at::Tensor elements = at::empty({t.whole.numel}, at::TensorOptions(t.whole.type));
  read_range(t, 0, elements);
  return shaped(elements, t.whole);
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> out;
  for (const auto& [name, t] : tensors_) out.push_back(name);
  return out;
}

std::optional<CheckpointReader> find_checkpoint(const fs::path& dir, const World& world) {
  // The lead says which there are: what another sees of a shared file system may be older.
  std::string listed;
  if (world.is_lead())
    for (const auto& [step, folder] : step_folders(dir)) listed += folder.filename().string() + "\n";
  listed = broadcast_text(world, listed);
  bool damaged = false;
  std::istringstream folders(listed);
  for (std::string name; std::getline(folders, name);) {
    const fs::path folder = dir / name;
    std::error_code error;
    std::string problem;
    std::optional<CheckpointReader> reader;
    if (!fs::exists(folder / kManifest, error)) {
      problem = "-";
    } else {
      try {
        reader = CheckpointReader(folder);
        reader->verify(world.rank, world.size);
      } catch (const Error& e) {
        problem = e.what();
      }
    }
    // One rank that cannot read it is enough.
    std::string first;
    for (const std::string& theirs : gather_texts(world, problem))
      if (first.empty()) first = theirs;
    if (first.empty()) return reader;
    if (first == "-") {
      log::warning(folder.string() + " has no manifest.json (its writing was cut off): skipped");
    } else {
      log::warning("Checkpoint " + folder.string() + " skipped: " + first);
      damaged = true;
    }
  }
  if (damaged)
    throw Error(ExitCode::bad_data, "none of the checkpoints in " + dir.string() + " can be read",
                "restore one, or train anew into another folder");
  return std::nullopt;
}

}  // namespace cirrus::dist
