// Opening, creating, closing and header reading with CFITSIO; see cfitsio_file.h.
#include "fits/cfitsio_file.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/signals.h"
#include "fits/names.h"

namespace cirrus::fits {
namespace {

/// The parts of an extended name that CFITSIO itself sees: whether it names an extension.
bool names_extension(const std::string& name) {
  if (name.size() >= FLEN_FILENAME) return false;
  std::array<std::array<char, FLEN_FILENAME>, 7> part{};
  int status = 0;
  std::string copy = name;
  ffiurl(copy.data(), part[0].data(), part[1].data(), part[2].data(), part[3].data(), part[4].data(), part[5].data(),
         part[6].data(), &status);
  fits_clear_errmsg();
  return status == 0 && part[3][0] != '\0';
}

/// CFITSIO also finds compressed siblings of a name.
bool exists_for_cfitsio(const std::string& path) {
  for (const char* ending : {"", ".gz", ".Z", ".z", ".zip", ".bz2", ".fz"}) {
    if (exists_literally(path + ending)) return true;
  }
  return false;
}

/// Until there is something to read: reading itself would not heed a signal before the sender writes.
void wait_for_stdin() {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  while (poll(&in, 1, -1) < 0 && errno == EINTR) signals::check_interrupt();
}

[[noreturn]] void throw_open(const std::string& name, int status, bool extension) {
  const std::string message = cfitsio_message(status);
  if (extension && (status == BAD_HDU_NUM || status == END_OF_FILE || status == NOT_IMAGE)) {
    throw Error(ExitCode::usage, name + ": no such HDU or section (CFITSIO: " + message + ")",
                "cirrus-data info lists the HDUs");
  }
  if (status == MEMORY_ALLOCATION) throw Error(ExitCode::internal, name + ": not enough memory to read it");
  throw Error(ExitCode::bad_data, name + " is not a readable FITS file (CFITSIO: " + message + ")",
              "check that it is complete, with fitsverify");
}

}  // namespace

std::string cfitsio_message(int status) {
  std::array<char, FLEN_STATUS> text{};
  fits_get_errstatus(status, text.data());
  std::string message = std::string(text.data()) + ", status " + std::to_string(status);
  std::array<char, FLEN_ERRMSG> line{};
  bool first = true;
  while (fits_read_errmsg(line.data()) != 0) {
    if (first) message += ": " + std::string(line.data());
    first = false;
  }
  return message;
}

CfitsioFile::~CfitsioFile() {
  close();
  fits_clear_errmsg();
}

int CfitsioFile::close() {
  int status = 0;
  if (file_ != nullptr) fits_close_file(std::exchange(file_, nullptr), &status);
  return status;
}

CfitsioFile CfitsioFile::open(const std::string& name, bool* chosen_hdu) {
  CfitsioFile file;
  int status = 0;
  bool extension = false;
  fits_clear_errmsg();
  if (exists_literally(name)) {
    std::error_code error;
    if (std::filesystem::is_directory(name, error)) {
      throw Error(ExitCode::bad_data, name + " is a folder", "name a FITS file in it");
    }
    // FITS files are read here and there, and opened more than once.
    if (!std::filesystem::is_regular_file(name, error)) {
      throw Error(ExitCode::bad_data, name + " is a pipe or a device, not a file", "feed it to stdin: - < " + name);
    }
    if (access(name.c_str(), R_OK) != 0) {
      throw Error(ExitCode::no_input, name + " may not be read", "check its permissions");
    }
    fits_open_diskfile(&file.file_, name.c_str(), READONLY, &status);
  } else {
    const std::string path = file_path(name);
    if (path != "-" && path.find("://") == std::string::npos && !exists_for_cfitsio(path)) {
      throw Error(ExitCode::no_input, path + " does not exist", "check the name and the folder");
    }
    if (path == "-") wait_for_stdin();
    extension = names_extension(name);
    fits_open_file(&file.file_, name.c_str(), READONLY, &status);
  }
  if (chosen_hdu != nullptr) *chosen_hdu = extension;
  if (status != 0) throw_open(name, status, extension || name.ends_with(']'));
  return file;
}

CfitsioFile CfitsioFile::create(const std::string& path) {
  CfitsioFile file;
  int status = 0;
  fits_clear_errmsg();
  if (path.ends_with(".gz")) {
    if (path.find_first_of("[(") != std::string::npos) {
      throw Error(ExitCode::cannot_create, "compressed output in a folder with brackets in its name: " + path,
                  "write .fits instead of .gz, or choose another folder");
    }
    fits_create_file(&file.file_, ("!" + path).c_str(), &status);
  } else {
    std::error_code error;
    std::filesystem::remove(path, error);  // CFITSIO wants to create it
    fits_create_diskfile(&file.file_, path.c_str(), &status);
  }
  if (status != 0) {
    throw Error(ExitCode::cannot_create, "cannot create " + path + " (CFITSIO: " + cfitsio_message(status) + ")",
                "choose another folder with -o");
  }
  return file;
}

Header read_header(fitsfile* file, std::vector<std::string>* warnings) {
  int status = 0;
  fitsfile* image = nullptr;
  if (fits_is_compressed_image(file, &status) != 0) {
    fits_create_file(&image, "mem://", &status);
    fits_img_decompress_header(file, image, &status);
  }
  const CfitsioFile memory(image);
  fitsfile* source = image != nullptr ? image : file;
  int count = 0;
  fits_get_hdrspace(source, &count, nullptr, &status);
  std::string text;
  for (int i = 1; i <= count && status == 0; ++i) {
    std::array<char, FLEN_CARD> card{};
    if (fits_read_record(source, i, card.data(), &status) == 0) text += Card(card.data()).text();
  }
  if (status != 0) {
    throw Error(ExitCode::bad_data, "the header cannot be read (CFITSIO: " + cfitsio_message(status) + ")",
                "check the file with fitsverify");
  }
  return Header::parse(text, warnings);
}

}  // namespace cirrus::fits
