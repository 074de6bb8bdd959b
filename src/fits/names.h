// File names: what stays of an input's name in the name of an output.
#pragma once

#include <string>
#include <string_view>

namespace cirrus::fits {

/// A name as it must not be rewritten: true if a file of exactly this name exists (so brackets and plus signs are part
/// of it).
bool exists_literally(const std::string& name);

/// The path part of a name in CFITSIO's syntax: without leading '!', [extension], [section], (output) and +n. An
/// existing file of exactly this name is returned as it is.
std::string file_path(const std::string& name);

/// Name for an output in the current folder: output_name("/data/map.fits.gz[SCI]", "_x4", ".fits") is "map_x4.fits".
/// Strips .fits, .fit, .fts, .gz, .fz and .bz2 in any case; stdin ("-") becomes "stdin".
std::string output_name(const std::string& input, std::string_view suffix, std::string_view extension);

}  // namespace cirrus::fits
