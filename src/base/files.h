// Files that are either whole or absent: written under a temporary name in the same folder, synced, renamed. Also the
// checks made before long work, hashes, and lists of inputs. Errors: no_input (66), cannot_create (73), io (74).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cirrus {

/// A file being made. Until commit() nothing exists under the final name; without commit() the destructor removes
/// everything.
class AtomicFile {
public:
  /// Creates an empty temporary file beside `target`, with the target's extension. Throws Error(cannot_create).
  explicit AtomicFile(std::filesystem::path target, bool overwrite = false);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// The temporary file, for libraries that open by name (they may replace it). Do not mix with write().
  const std::filesystem::path& temporary() const { return temporary_; }
  const std::filesystem::path& target() const { return target_; }

  /// Appends bytes. Throws Error(io), e.g. when the disk is full.
  void write(std::string_view bytes);
  /// Syncs to disk and renames to the final name. Throws Error(io), or Error(cannot_create) if the target has appeared.
  void commit();

private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool overwrite_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Writes a whole file atomically.
void write_text(const std::filesystem::path& path, std::string_view text, bool overwrite = false);
/// Reads a whole file. Throws Error(no_input) if it is missing, Error(io) if it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// SHA-256 (FIPS 180-4) as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
std::string sha256_file(const std::filesystem::path& path);

/// The name a user gave for an output: CFITSIO's leading `!` means overwrite.
struct OutputName {
  std::filesystem::path path;
  bool overwrite = false;
};
OutputName output_name(const std::string& given, bool overwrite);

/// Checks before long work that `path` can be made: its folder exists and is writable, it does not exist (or
/// overwrite), it is no folder and none of `inputs` (also through links). Throws Error(cannot_create). "-" (stdout)
/// passes.
void require_writable_output(const std::filesystem::path& path, bool overwrite,
                             const std::vector<std::filesystem::path>& inputs = {});

/// Replaces each "@list.txt" by the lines of that file (blank lines and lines that start with # are skipped; names are
/// taken as if typed in the shell). A file literally named "@..." wins. Throws Error(no_input), or Error(bad_data) for
/// an empty list.
std::vector<std::string> expand_lists(const std::vector<std::string>& names);

}  // namespace cirrus
