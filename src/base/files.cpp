// Atomic files, output checks and input lists; see files.h.
#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/errors.h"

namespace cirrus {
namespace fs = std::filesystem;
namespace {

std::string reason() { return std::strerror(errno); }

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

[[noreturn]] void throw_not_written(const fs::path& path) {
  throw Error(ExitCode::io, "cannot write " + path.string() + ": " + reason(),
              "check the space left on the disk and the quota");
}

[[noreturn]] void throw_exists(const fs::path& path) {
  throw Error(ExitCode::cannot_create, path.string() + " exists", "give --overwrite, or another name with -o");
}

/// The temporary stays in the target's folder (rename cannot cross file systems) and keeps the extension, which tells
/// CFITSIO and OpenCV the format.
fs::path temporary_name(const fs::path& target) {
  static std::atomic<unsigned> count{0};
  const std::string name = ".cirrus-" + std::to_string(getpid()) + "-" + std::to_string(count++);
  return folder_of(target) / (name + target.extension().string());
}

void sync_folder(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder without read permission: the rename itself holds
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(fs::path target, bool overwrite) : target_(std::move(target)), overwrite_(overwrite) {
  require_writable_output(target_, overwrite_);
  do {  // another machine on the same file system may have our process id
    temporary_ = temporary_name(target_);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    throw Error(ExitCode::cannot_create, "cannot create " + target_.string() + ": " + reason(),
                "choose another folder");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_not_written(target_);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  // A library may have replaced the file behind our descriptor: sync what now has the temporary's name.
  close(descriptor_);
  descriptor_ = open(temporary_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0 || fsync(descriptor_) != 0) throw_not_written(target_);
  int failed = 0;
  if (overwrite_) {
    failed = rename(temporary_.c_str(), target_.c_str());
  } else if (link(temporary_.c_str(), target_.c_str()) == 0) {  // unlike rename, link never replaces
    unlink(temporary_.c_str());
  } else if (errno == EEXIST) {
    throw_exists(target_);
  } else {  // a file system without hard links
    if (fs::exists(target_)) throw_exists(target_);
    failed = rename(temporary_.c_str(), target_.c_str());
  }
  if (failed != 0) throw Error(ExitCode::io, "cannot rename to " + target_.string() + ": " + reason());
  committed_ = true;
  sync_folder(folder_of(target_));
}

void write_text(const fs::path& path, std::string_view text, bool overwrite) {
  AtomicFile file(path, overwrite);
  file.write(text);
  file.commit();
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ExitCode::no_input, "cannot open " + path.string() + ": " + reason(), "check the name");
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || text.fail()) throw Error(ExitCode::io, "cannot read " + path.string() + ": " + reason());
  return std::move(text).str();
}

OutputName output_name(const std::string& given, bool overwrite) {
  if (given.size() > 1 && given.front() == '!') return {given.substr(1), true};
  return {given, overwrite};
}

void require_writable_output(const fs::path& path, bool overwrite, const std::vector<fs::path>& inputs) {
  if (path == "-") return;
  const auto refuse = [](const std::string& message, const std::string& remedy) {
    throw Error(ExitCode::cannot_create, message, remedy);
  };
  if (path.empty() || !path.has_filename())
    refuse("the output \"" + path.string() + "\" has no file name", "give one with -o");
  if (path.filename().string().size() > NAME_MAX)
    refuse("the output's name has " + std::to_string(path.filename().string().size()) + " bytes, more than the " +
               std::to_string(NAME_MAX) + " of a file system: " + path.filename().string(),
           "give a shorter one with -o");
  std::error_code ignored;
  for (const fs::path& input : inputs) {
    if (fs::equivalent(path, input, ignored))
      refuse("the output " + path.string() + " is the input", "give another name with -o");
  }
  const fs::path folder = folder_of(path);
  if (!fs::exists(folder, ignored)) refuse("the folder " + folder.string() + " does not exist", "create it first");
  if (!fs::is_directory(folder, ignored)) refuse(folder.string() + " is not a folder", "choose another folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse("cannot write in the folder " + folder.string() + ": " + reason(), "choose another folder");
  }
  if (fs::is_directory(path, ignored)) refuse(path.string() + " is a folder", "give a file name");
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    refuse(path.string() + " is a device, pipe or socket, not a file", "give the name of a file");
  if (!overwrite && fs::exists(fs::symlink_status(path, ignored))) throw_exists(path);
}

std::vector<std::string> expand_lists(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    if (name.size() < 2 || name.front() != '@' || fs::exists(name)) {
      all.push_back(name);
      continue;
    }
    const std::string list = name.substr(1);
    std::istringstream lines(read_text(list));
    const std::size_t before = all.size();
    for (std::string line; std::getline(lines, line);) {
      const std::size_t first = line.find_first_not_of(" \t\r");
      if (first == std::string::npos || line[first] == '#') continue;
      all.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
    }
    if (all.size() == before)
      throw Error(ExitCode::bad_data, "the list " + list + " names no files", "write one name a line");
  }
  return all;
}

}  // namespace cirrus
