// Whether a shared library on disk is whole: the dynamic loader maps one that was cut off (an interrupted copy, a full
// disk) without a word, and the program dies of SIGBUS in its missing pages.
#pragma once

#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace cirrus {

/// What is wrong with the file, "" if its segments and its section table lie within it. Files that are no 64-bit ELF
/// are left to the loader's own message.
inline std::string damage_of_library(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "it is no file";
  const std::uint64_t size = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return "it is cut off";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is no shared library";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return "";
  const auto outside = [&](std::uint64_t begin, std::uint64_t bytes) { return begin > size || bytes > size - begin; };
  if (outside(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)) ||
      outside(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize))
    return "it is cut off";
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  if (!in.read(reinterpret_cast<char*>(segments.data()),
               static_cast<std::streamsize>(segments.size() * sizeof(Elf64_Phdr))))
    return "it is cut off";
  for (const Elf64_Phdr& s : segments)
    if (s.p_type == PT_LOAD && outside(s.p_offset, s.p_filesz)) return "it is cut off";
  return "";
}

}  // namespace cirrus
