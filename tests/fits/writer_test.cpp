// Written files: whole or absent, valid, reproducible, lossless; refusals with their exit codes.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>

#include "fits/image.h"
#include "fits/writer.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::fits::testing::Scratch;
using cirrus::fits::testing::write_raw;
using cirrus::test::exit_code_of;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A map of several kinds of image, with blanks.
struct Maps {
  std::vector<float> mean = std::vector<float>(35 * 20);
  std::vector<double> deviation = std::vector<double>(35 * 20);
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(35 * 20);
  std::vector<float> members = std::vector<float>(35 * 20 * 3);
  Header header = Header::from_lines(
      "OBJECT  = 'Perseus' / a cloud\nBUNIT   = 'MJy/sr'\nDATAMIN = -99.0\nDATAMAX = 99.0\n"
      "CHECKSUM= 'stale'\nBSCALE  = 2.0\nHISTORY before\nDATE    = '2004-08-12' / old");
  Maps() {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i)) * 1e-3);
      deviation[i] = std::cos(0.1 * static_cast<double>(i)) / 3.0;
      mask[i] = i % 7 == 0 ? 1 : 0;
      if (mask[i] != 0) mean[i] = std::numeric_limits<float>::quiet_NaN();
    }
    for (std::size_t i = 0; i < members.size(); ++i) members[i] = static_cast<float>(i);
  }
  std::vector<OutputHdu> hdus() const {
    return {{"", header, std::span<const float>(mean), {35, 20}},
            {"STD", {}, std::span<const double>(deviation), {35, 20}},
            {"MASK", {}, std::span<const std::uint8_t>(mask), {35, 20}},
            {"MEMBERS", {}, std::span<const float>(members), {35, 20, 3}}};
  }
};

/// What fitsverify says, or "" where it is not installed.
std::string fitsverify(const std::string& path) {
  FILE* pipe = popen(("fitsverify '" + path + "' 2>/dev/null").c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(written_files)

BOOST_AUTO_TEST_CASE(every_hdu_comes_back_exactly_in_every_packing) {
  const Scratch scratch;
  const Maps maps;
  const auto hdus = maps.hdus();
  for (const auto& [name, compress] :
       {std::pair{"plain.fits", false}, {"tiles.fits", true}, {"whole.fits.gz", false}}) {
    BOOST_TEST_CONTEXT(name) {
      const std::string path = write_images(scratch / name, hdus, {.compress = compress});
      BOOST_TEST(path == scratch / name);
      const Image mean = read_image(path);
      BOOST_TEST(mean.bitpix == -32);
      BOOST_TEST(mean.hdu_number == (compress ? 1 : 0));
      BOOST_TEST(mean.warnings.empty());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < mean.pixels.size(); ++i) {
        const bool both_blank = std::isnan(mean.pixels[i]) && std::isnan(maps.mean[i]);
        if (!both_blank && mean.pixels[i] != static_cast<double>(maps.mean[i])) ++wrong;
      }
      BOOST_TEST(wrong == 0u);
      const Image deviation = read_image(path, {"STD"});
      BOOST_TEST(deviation.bitpix == -64);
      BOOST_TEST((deviation.pixels == maps.deviation));
      const Image mask = read_image(path, {"MASK"});
      BOOST_TEST(mask.bitpix == 8);
      BOOST_TEST((mask.pixels == std::vector<double>(maps.mask.begin(), maps.mask.end())));
      BOOST_TEST(read_image(path, {"MEMBERS", 3}).pixels[0] == 1400.0);
      for (const HduInfo& hdu : list_hdus(path)) BOOST_TEST(hdu.checksum == "ok", hdu.name);
      const std::string report = fitsverify(path);
      const bool verified = report.empty() || report.find("found 0 warning(s) and 0 error(s)") != std::string::npos;
      BOOST_CHECK_MESSAGE(verified, report);
    }
  }
  BOOST_TEST(bytes_of(scratch / "whole.fits.gz").substr(0, 2) == "\x1f\x8b");
  BOOST_TEST(list_hdus(scratch / "tiles.fits").at(1).type == "CompImageHDU");
  BOOST_TEST(scratch.files() == 3u);
}

BOOST_AUTO_TEST_CASE(any_number_of_axes_is_written_in_every_packing) {
  const Scratch scratch;
  std::vector<float> pixels(6 * 4);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i) / 7.0F;
  for (const std::vector<std::int64_t>& axes :
       {std::vector<std::int64_t>{6, 4}, {6, 4, 1}, {6, 4, 1, 1}, {1, 6, 4, 1, 1}}) {
    for (const bool compress : {false, true}) {
      const OutputHdu hdu{"", {}, std::span<const float>(pixels), axes};
      write_images(scratch / "axes.fits", std::span(&hdu, 1), {.overwrite = true, .compress = compress});
      const Image image = read_image(scratch / "axes.fits");
      BOOST_TEST(image.axes == axes, boost::test_tools::per_element());
      BOOST_TEST((image.pixels == std::vector<double>(pixels.begin(), pixels.end())));
    }
  }
}

BOOST_AUTO_TEST_CASE(headers_are_kept_and_completed) {
  const Scratch scratch;
  const Maps maps;
  write_images(scratch / "out.fits", maps.hdus());
  const Header header = read_image(scratch / "out.fits").header;
  BOOST_TEST(header.cards()[*header.find("OBJECT")].text() == maps.header.cards()[0].text());
  BOOST_TEST(header.find("HISTORY").value() < header.find("DATE").value());  // where the input had them
  BOOST_TEST(header.get<std::string>("DATE").value().size() == 19u);
  BOOST_TEST(header.get<std::string>("CREATOR").value().starts_with("Cirrus "));
  BOOST_TEST(!header.has("BSCALE"));
  BOOST_TEST(header.cards()[header.size() - 2].key() == "CHECKSUM");
  BOOST_TEST(header.cards()[header.size() - 1].key() == "DATASUM");
  double low = 1e9, high = -1e9;
  for (const float value : maps.mean) {
    if (!std::isnan(value)) low = std::min<double>(low, value), high = std::max<double>(high, value);
  }
  BOOST_TEST(header.get<double>("DATAMIN").value() == low);
  BOOST_TEST(header.get<double>("DATAMAX").value() == high);
  BOOST_TEST(header.commentary("COMMENT").empty());  // no boilerplate of the library's
}

BOOST_AUTO_TEST_CASE(keywords_of_extensions_stay_out_of_the_primary) {
  const Scratch scratch;
  const std::vector<float> pixels(6, 1.0F);
  const Header header =
      Header::from_lines("INHERIT =                    T\nEXTLEVEL= 1\nEXTNAME = 'ccd2'\nXTENSION= 'IMAGE'");
  const OutputHdu hdus[] = {{"", header, std::span<const float>(pixels), {3, 2}},
                            {"STD", header, std::span<const float>(pixels), {3, 2}}};
  write_images(scratch / "out.fits", hdus);
  const Header primary = read_image(scratch / "out.fits").header,
               extension = read_image(scratch / "out.fits", {"STD"}).header;
  BOOST_TEST(!primary.has("INHERIT"));
  BOOST_TEST(!primary.has("EXTLEVEL"));
  BOOST_TEST(!primary.has("XTENSION"));
  BOOST_TEST(primary.get<std::string>("EXTNAME").value() == "ccd2");
  BOOST_TEST(extension.get<bool>("INHERIT").value());
  BOOST_TEST(extension.get<std::string>("EXTNAME").value() == "STD");
}

BOOST_AUTO_TEST_CASE(equal_runs_give_equal_bytes) {
  const Scratch scratch;
  const Maps maps;
  const auto hdus = maps.hdus();
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  for (const char* name : {"a.fits", "b.fits", "a.fits.gz", "b.fits.gz"}) write_images(scratch / name, hdus);
  write_images(scratch / "tiles_a.fits", hdus, {.compress = true});
  write_images(scratch / "tiles_b.fits", hdus, {.compress = true});
  unsetenv("SOURCE_DATE_EPOCH");
  BOOST_TEST((bytes_of(scratch / "a.fits") == bytes_of(scratch / "b.fits")));
  BOOST_TEST((bytes_of(scratch / "a.fits.gz") == bytes_of(scratch / "b.fits.gz")));
  BOOST_TEST((bytes_of(scratch / "tiles_a.fits") == bytes_of(scratch / "tiles_b.fits")));
  BOOST_TEST(read_image(scratch / "a.fits").header.get<std::string>("DATE").value() == "2023-11-14T22:13:20");
}

BOOST_AUTO_TEST_CASE(a_second_pass_adds_no_cards) {
  const Scratch scratch;
  const Maps maps;
  write_images(scratch / "first.fits", maps.hdus());
  const Image first = read_image(scratch / "first.fits");
  const OutputHdu again{"", first.header, std::span<const double>(first.pixels), {35, 20}};
  write_images(scratch / "second.fits", std::span(&again, 1));
  BOOST_TEST(read_image(scratch / "second.fits").header.size() == first.header.size());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(refused_outputs)

BOOST_AUTO_TEST_CASE(nothing_is_overwritten_unasked) {
  const Scratch scratch;
  const Maps maps;
  const auto hdus = maps.hdus();
  const std::string path = scratch / "out.fits";
  const auto code = [&](const std::string& name, const WriteOptions& options = {}) {
    const ExitCode checked = exit_code_of([&] { check_output(name, options); });
    BOOST_TEST(exit_code_of([&] { write_images(name, hdus, options); }) == checked);
    return checked;
  };
  std::ofstream(path) << "precious";
  BOOST_TEST(code(path) == ExitCode::cannot_create);
  BOOST_TEST(bytes_of(path) == "precious");
  BOOST_TEST(code(path, {.overwrite = true, .inputs = {path}}) == ExitCode::cannot_create);
  std::filesystem::create_symlink(path, scratch / "link.fits");
  BOOST_TEST(code(path, {.overwrite = true, .inputs = {scratch / "link.fits"}}) == ExitCode::cannot_create);
  BOOST_TEST(code(path, {.overwrite = true, .inputs = {path + "[0]"}}) == ExitCode::cannot_create);
  BOOST_TEST(bytes_of(path) == "precious");
  BOOST_TEST(code("!" + path) == ExitCode::ok);
  BOOST_TEST(read_image(path).width == 35);
  BOOST_TEST(code(path, {.overwrite = true}) == ExitCode::ok);
  BOOST_TEST(code(scratch / "absent/out.fits") == ExitCode::cannot_create);
  BOOST_TEST(code(scratch.path().string(), {.overwrite = true}) == ExitCode::cannot_create);
  for (const char* name : {"new.fits[compress]", "new.fits(x)", "mem://", "-"})
    BOOST_TEST(code(name) == ExitCode::usage, name);
  BOOST_TEST(code(scratch / "new.fits.gz", {.compress = true}) == ExitCode::usage);
  BOOST_TEST(scratch.files() == 2u);
}

BOOST_AUTO_TEST_CASE(a_folder_without_permission_is_refused) {
  if (geteuid() == 0) {
    BOOST_TEST_MESSAGE("skipped: the superuser may write everywhere");
    return;
  }
  const Scratch scratch;
  const Maps maps;
  std::filesystem::permissions(scratch.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  BOOST_TEST(exit_code_of([&] { write_images(scratch / "out.fits", maps.hdus()); }) == ExitCode::cannot_create);
}

BOOST_AUTO_TEST_CASE(literal_brackets_in_folders_are_no_syntax) {
  const Scratch scratch;
  const Maps maps;
  std::filesystem::create_directory(scratch / "run[2] (b)+1");
  const std::string path = scratch / "run[2] (b)+1/map[v2].fits";
  write_images(path, maps.hdus());
  BOOST_TEST(read_image(path).width == 35);
  BOOST_TEST(exit_code_of([&] { write_images(path + ".gz", maps.hdus()); }) == ExitCode::cannot_create);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(interrupted_writing)

BOOST_AUTO_TEST_CASE(an_exception_leaves_no_trace) {
  const Scratch scratch;
  const Maps maps;
  std::ofstream(scratch / "out.fits") << "precious";
  for (const char* name : {"out.fits", "new.fits", "new.fits.gz"}) {
    for (int stop = 1; stop <= 5; ++stop) {
      int calls = 0;
      WriteOptions options{.overwrite = true};
      options.poll = [&] {
        if (++calls == stop) throw Error(ExitCode::interrupted, "stopped");
      };
      BOOST_TEST(exit_code_of([&] { write_images(scratch / name, maps.hdus(), options); }) == ExitCode::interrupted);
      BOOST_TEST(scratch.files() == 1u);
    }
  }
  BOOST_TEST(bytes_of(scratch / "out.fits") == "precious");
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_io_error_and_leaves_no_trace) {
  const Scratch scratch;
  const std::vector<float> pixels(400 * 400, 1.0F);
  std::vector<float> noise(400 * 400);  // does not shrink in .gz
  unsigned state = 1;
  for (float& value : noise) value = static_cast<float>(state = state * 1664525u + 1013904223u);
  for (const auto& [name, compress] : {std::pair{"out.fits", false}, {"tiles.fits", true}, {"out.fits.gz", false}}) {
    const OutputHdu hdu{"", {}, std::span<const float>(noise), {400, 400}};
    const auto old_handler = signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit small = before;
    small.rlim_cur = 100000;
    setrlimit(RLIMIT_FSIZE, &small);
    const ExitCode code =
        exit_code_of([&] { write_images(scratch / name, std::span(&hdu, 1), {.compress = compress}); });
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, old_handler);
    BOOST_TEST(code == ExitCode::io, name);
    BOOST_TEST(scratch.files() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_killed_program_leaves_nothing_under_the_final_name) {
  const Scratch scratch;
  const Maps maps;
  const pid_t child = fork();
  if (child == 0) {
    int calls = 0;
    WriteOptions options;
    options.poll = [&] {
      if (++calls == 5) raise(SIGKILL);  // all HDUs written, the file not yet closed
    };
    write_images(scratch / "out.fits", maps.hdus(), options);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  BOOST_TEST(WIFSIGNALED(status));
  BOOST_TEST(!std::filesystem::exists(scratch / "out.fits"));
}

BOOST_AUTO_TEST_SUITE_END()
