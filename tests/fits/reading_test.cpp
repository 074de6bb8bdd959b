// Which file, HDU and plane a name means; pixels without a value; files that are damaged, hostile or not FITS at all.
#include <fcntl.h>
#include <sys/resource.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fits/image.h"
#include "fits/writer.h"
#include "tests/fits/scratch.h"

using namespace cirrus;
using namespace cirrus::fits;
using cirrus::fits::testing::real_files;
using cirrus::fits::testing::Scratch;
using cirrus::fits::testing::write_raw;
using cirrus::test::exit_code_of;

namespace {

/// Big-endian bytes, as FITS stores numbers.
template <typename T>
std::string big_endian(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) {
    std::string one(sizeof(T), '\0');
    std::memcpy(one.data(), &value, sizeof(T));
    bytes.append(one.rbegin(), one.rend());
  }
  return bytes;
}

const std::string kImage3x2 =
    "SIMPLE  =                    T\nBITPIX  =                   16\nNAXIS   =                    2\n"
    "NAXIS1  =                    3\nNAXIS2  =                    2\n";

/// Three images: unnamed primary 4 x 3, SCI 5 x 2, SCI version 2 6 x 2, with pixel values 0, 1, 2.
void write_three(const std::string& path) {
  const std::vector<float> zero(12, 0.0F), one(10, 1.0F), two(12, 2.0F);
  Header version;
  version.set("EXTVER", 2);
  const OutputHdu hdus[] = {{"", {}, std::span<const float>(zero), {4, 3}},
                            {"SCI", {}, std::span<const float>(one), {5, 2}},
                            {"SCI", version, std::span<const float>(two), {6, 2}}};
  write_images(path, hdus);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reading_names)

BOOST_AUTO_TEST_CASE(literal_names_win_over_extended_syntax) {
  const Scratch scratch;
  for (const char* name :
       {"map[v2].fits", "a+1.fits", "name+2", "two words.fits", "Z\xc3\xbcrich.fits", "b(1).fits", "map[1]"}) {
    write_three(scratch / "plain.fits");
    std::filesystem::rename(scratch / "plain.fits", scratch / name);
    const Image image = read_image(scratch / name);
    BOOST_TEST(image.width == 4);
    BOOST_TEST(image.hdu_number == 0);
    BOOST_TEST(list_hdus(scratch / name).size() == 3u);
  }
}

BOOST_AUTO_TEST_CASE(hdus_are_chosen_by_number_name_and_version) {
  const Scratch scratch;
  const std::string path = scratch / "three.fits";
  write_three(path);
  const auto width = [&](const std::string& name, const std::string& hdu) { return read_image(name, {hdu}).width; };
  BOOST_TEST(width(path, "") == 4);
  BOOST_TEST(width(path, "1") == 5);
  BOOST_TEST(width(path, "SCI") == 5);
  BOOST_TEST(width(path, "sci,2") == 6);
  BOOST_TEST(width(path + "[2]", "") == 6);
  BOOST_TEST(width(path + "+1", "") == 5);
  BOOST_TEST(width(path + "[SCI,2]", "") == 6);
  BOOST_TEST(width(path + "[SCI,2][2:5,1:2]", "") == 4);
  BOOST_TEST(width(path + "[2:3,1:3]", "") == 2);
  BOOST_TEST(read_image(path, {"2"}).hdu_name == "SCI");
  BOOST_TEST(read_image(path, {"2"}).pixels.at(0) == 2.0);
  std::string message;
  for (const char* hdu : {"3", "99999999999", "ERR", "SCI,9", "-1"}) {
    BOOST_TEST(exit_code_of([&] { read_image(path, {hdu}); }, &message) == ExitCode::usage, hdu);
    BOOST_TEST(message.find("2 SCI (6 x 2)") != std::string::npos);
  }
  BOOST_TEST(exit_code_of([&] { read_image(path + "[ERR]"); }) == ExitCode::usage);
  BOOST_TEST(exit_code_of([&] { read_image(path + "[7]"); }) == ExitCode::usage);
  BOOST_TEST(exit_code_of([&] { read_image(path + "[1]", {"2"}); }) == ExitCode::usage);
}

BOOST_AUTO_TEST_CASE(missing_and_foreign_files_are_told_apart) {
  const Scratch scratch;
  BOOST_TEST(exit_code_of([&] { read_image(scratch / "absent.fits"); }) == ExitCode::no_input);
  BOOST_TEST(exit_code_of([&] { read_image(scratch / "absent.fits[SCI]"); }) == ExitCode::no_input);
  BOOST_TEST(exit_code_of([&] { list_hdus(""); }) == ExitCode::no_input);
  BOOST_TEST(exit_code_of([&] { read_image(scratch.path().string()); }) == ExitCode::bad_data);
  std::ofstream(scratch / "empty.fits");
  std::ofstream(scratch / "text.fits") << "This is not FITS.\n";
  std::ofstream(scratch / "picture.png") << "\x89PNG\r\n\x1a\n" << std::string(5000, 'x');
  std::ofstream(scratch / "broken.fits.gz") << "\x1f\x8b\x08" << std::string(500, 'x');
  for (const char* name : {"empty.fits", "text.fits", "picture.png", "broken.fits.gz"}) {
    std::string message;
    BOOST_TEST(exit_code_of([&] { read_image(scratch / name); }, &message) == ExitCode::bad_data, name);
    BOOST_TEST(message.find(name) != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(standard_input_is_a_file) {
  const Scratch scratch;
  write_three(scratch / "three.fits");
  const int saved = dup(0), file = open((scratch / "three.fits").c_str(), O_RDONLY);
  dup2(file, 0);
  const Image image = read_image("-");
  dup2(saved, 0);
  close(saved);
  close(file);
  BOOST_TEST(image.width == 4);
}

BOOST_AUTO_TEST_CASE(many_files_need_few_descriptors) {
  const Scratch scratch;
  write_three(scratch / "three.fits");
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 40;
  setrlimit(RLIMIT_NOFILE, &few);
  std::size_t read = 0;
  for (int i = 0; i < 2000; ++i) read += read_image(scratch / "three.fits").pixels.size();
  setrlimit(RLIMIT_NOFILE, &before);
  BOOST_TEST(read == 24000u);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(reading_pixels)

BOOST_AUTO_TEST_CASE(scaling_and_blanks_of_integers) {
  const Scratch scratch;
  write_raw(scratch / "int.fits", kImage3x2 + "BSCALE  = 0.5\nBZERO   = 100\nBLANK   = -1\n",
            big_endian<std::int16_t>({0, 1, -1, 200, -32768, 32767}));
  const Image image = read_image(scratch / "int.fits");
  BOOST_TEST(image.bitpix == 16);
  BOOST_TEST(image.pixels[0] == 100.0);
  BOOST_TEST(image.pixels[1] == 100.5);
  BOOST_TEST(std::isnan(image.pixels[2]));
  BOOST_TEST(image.pixels[3] == 200.0);  // first pixel of row 2
  BOOST_TEST(image.pixels[4] == 100.0 - 16384.0);
}

BOOST_AUTO_TEST_CASE(scaling_that_makes_no_sense_is_refused_by_name) {
  const Scratch scratch;
  for (const std::string card : {"BSCALE  = 'two'", "BSCALE  = NaN", "BSCALE  = 0.0", "BZERO   = 'none'",
                                 "BLANK   = 'abc'", "BLANK   = -1.0", "BSCALE  =", "BLANK   ="}) {
    write_raw(scratch / "int.fits", kImage3x2 + card + "\n", big_endian<std::int16_t>({0, 1, -1, 200, -32768, 32767}));
    std::string message;
    BOOST_TEST(exit_code_of([&] { read_image(scratch / "int.fits"); }, &message) == ExitCode::bad_data, card);
    BOOST_TEST(message.find(card.substr(0, 5)) != std::string::npos, message);
  }
  write_raw(scratch / "int.fits", kImage3x2 + "BSCALE  = 1\nBZERO   = 0\n",
            big_endian<std::int16_t>({0, 1, 2, 3, 4, 5}));
  BOOST_TEST(read_image(scratch / "int.fits").pixels[5] == 5.0);
}

BOOST_AUTO_TEST_CASE(nan_and_infinity_have_no_value) {
  const Scratch scratch;
  const float inf = std::numeric_limits<float>::infinity();
  std::string lines = kImage3x2;
  lines.replace(lines.find("16"), 2, "-32");
  write_raw(scratch / "float.fits", lines, big_endian<float>({1.5F, inf, -inf, std::nanf(""), -2.0F, 0.0F}));
  const Image image = read_image(scratch / "float.fits");
  BOOST_TEST(image.pixels[0] == 1.5);
  for (const std::size_t i : {1u, 2u, 3u}) BOOST_TEST(std::isnan(image.pixels[i]));
  BOOST_TEST(image.pixels[5] == 0.0);
}

BOOST_AUTO_TEST_CASE(wrong_checksums_are_a_warning) {
  const Scratch scratch;
  write_raw(scratch / "sum.fits", kImage3x2 + "CHECKSUM= 'SjdGUibESibESibE'\nDATASUM = '1293189896'\n",
            big_endian<std::int16_t>({0, 1, 2, 3, 4, 5}));
  const Image image = read_image(scratch / "sum.fits");
  BOOST_TEST(image.warnings.size() == 1u);
  BOOST_TEST(read_image(scratch / "sum.fits", {"", 0, false, false}).warnings.empty());
  BOOST_TEST(list_hdus(scratch / "sum.fits").at(0).checksum == "wrong");
}

BOOST_AUTO_TEST_CASE(length_one_axes_are_squeezed_and_restored) {
  const Scratch scratch;
  const std::vector<float> pixels(12, 3.0F);
  for (const std::vector<std::int64_t>& axes :
       {std::vector<std::int64_t>{4, 3, 1, 1}, {1, 4, 3}, {4, 1, 3}, {1, 1, 4, 3}}) {
    Header header;
    const OutputHdu hdu{"", header, std::span<const float>(pixels), axes};
    write_images(scratch / "axes.fits", std::span(&hdu, 1), {.overwrite = true});
    const Image image = read_image(scratch / "axes.fits");
    BOOST_TEST(image.width == 4);
    BOOST_TEST(image.height == 3);
    BOOST_TEST(image.planes == 1);
    BOOST_TEST(image.axes == axes, boost::test_tools::per_element());
    BOOST_TEST(output_axes(image, 4, 3) == axes, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_plane_of_a_cube_is_described_as_that_plane) {
  const Scratch scratch;
  std::vector<float> pixels;
  for (int plane = 0; plane < 6; ++plane) pixels.insert(pixels.end(), 12, static_cast<float>(plane));
  Header header = Header::from_lines(
      "CTYPE3  = 'VRAD'\nCRVAL3  = 1000.0\nCDELT3  = 50.0\nCRPIX3  = 2.0\nCRPIX3A = 7.0\nCRVAL3A = 1.0\n"
      "CTYPE4  = 'STOKES'\nCRVAL4  = 1.0\nCDELT4  = 1.0");
  const OutputHdu hdu{"", header, std::span<const float>(pixels), {4, 3, 3, 2}};
  write_images(scratch / "cube.fits", std::span(&hdu, 1));
  BOOST_TEST(count_planes(scratch / "cube.fits") == 6);
  for (std::int64_t plane = 1; plane <= 6; ++plane) {
    const Image image = read_image(scratch / "cube.fits", {"", plane});
    BOOST_TEST(image.pixels[5] == static_cast<double>(plane - 1));
    const std::int64_t velocity = (plane - 1) % 3, stokes = (plane - 1) / 3;
    BOOST_TEST(image.header.get<double>("CRPIX3").value() == 2.0 - static_cast<double>(velocity));
    BOOST_TEST(image.header.get<double>("CRPIX3A").value() == 7.0 - static_cast<double>(velocity));
    BOOST_TEST(image.header.get<double>("CRPIX4").value_or(0.0) == -static_cast<double>(stokes));  // absent: 0
    BOOST_TEST(image.header.get<int>("NAXIS3").value() == 1);
    BOOST_TEST(output_axes(image, 8, 6) == (std::vector<std::int64_t>{8, 6, 1, 1}), boost::test_tools::per_element());
    const Image whole = read_image(scratch / "cube.fits", {"", plane, true});
    BOOST_TEST(whole.header.get<double>("CRPIX3").value() == 2.0);
    BOOST_TEST(output_axes(whole, 8, 6, true) == (std::vector<std::int64_t>{8, 6, 3, 2}),
               boost::test_tools::per_element());
  }
  BOOST_TEST(exit_code_of([&] { read_image(scratch / "cube.fits"); }) == ExitCode::bad_data);
  BOOST_TEST(exit_code_of([&] { read_image(scratch / "cube.fits", {"", 7}); }) == ExitCode::usage);
  BOOST_TEST(exit_code_of([&] { read_image(scratch / "cube.fits", {"", -1}); }) == ExitCode::usage);
}

BOOST_AUTO_TEST_CASE(compressed_copies_read_as_the_original) {
  const std::string folder = real_files();
  if (folder.empty()) return;
  const Image plain = read_image(folder + "awkward/m13.fits"), rice = read_image(folder + "awkward/m13_rice.fits");
  BOOST_TEST((plain.pixels == rice.pixels));
  BOOST_TEST(plain.header.get<double>("CRPIX1").value() == rice.header.get<double>("CRPIX1").value());
  for (const Card& card : rice.header.cards()) {
    BOOST_TEST(!card.key().starts_with("Z"), card.text());
    BOOST_TEST(!card.key().starts_with("T"), card.text());  // TFIELDS, TTYPE1; TELESCOP is not in this file
  }
  // astropy 5.2: numpy.isnan(data).sum(), nansum(data)
  const Image nan = read_image(folder + "awkward/compressed_with_nan.fits");
  double sum = 0.0;
  int blanks = 0;
  for (const double value : nan.pixels)
    std::isnan(value) ? static_cast<void>(++blanks) : static_cast<void>(sum += value);
  BOOST_TEST(blanks == 1);
  BOOST_TEST(sum == 10283.482542544287, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(files_beyond_two_gigabytes_are_read) {
  const Scratch scratch;
  const std::string path = scratch / "large.fits";
  std::string lines = kImage3x2;
  lines =
      "SIMPLE  =                    T\nBITPIX  =                  -32\nNAXIS   =                    2\n"
      "NAXIS1  =                30000\nNAXIS2  =                30000\n";
  write_raw(path, lines);
  std::filesystem::resize_file(path, 2880 + (std::uintmax_t{3600000000} + 2879) / 2880 * 2880);  // sparse
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2880 + std::streamoff{4} * (29999LL * 30000 + 29998));
    file << big_endian<float>({6.5F, 7.5F});
  }
  const Image corner = read_image(path + "[29999:30000,29999:30000]", {"", 0, false, false});
  BOOST_TEST(corner.pixels[2] == 6.5);
  BOOST_TEST(corner.pixels[3] == 7.5);
  BOOST_TEST(corner.pixels[0] == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(damaged_files)

BOOST_AUTO_TEST_CASE(truncated_and_hostile_files_are_bad_data) {
  const Scratch scratch;
  const std::string path = scratch / "bad.fits";
  const auto code = [&](std::string* message = nullptr) { return exit_code_of([&] { read_image(path); }, message); };
  std::string large = kImage3x2;
  large.replace(large.find("3\nNAXIS2"), 1, "3000");
  std::string message;

  write_raw(path, large, std::string(5000, 'x'));  // 12000 bytes announced
  BOOST_TEST(code(&message) == ExitCode::bad_data);
  BOOST_TEST(message.find("truncated") != std::string::npos);

  write_raw(path, "SIMPLE  = T\nBITPIX  = -64\nNAXIS   = 2\nNAXIS1  = 900000000\nNAXIS2  = 900000000\n", "little");
  BOOST_TEST(code() == ExitCode::bad_data);  // and no attempt to allocate 6 exabytes
  write_raw(path, "SIMPLE  = T\nBITPIX  = -64\nNAXIS   = 2\nNAXIS1  = 9000000000000000\nNAXIS2  = 9000000000000000\n",
            "little");
  BOOST_TEST(code() == ExitCode::bad_data);
  write_raw(path, "SIMPLE  = T\nBITPIX  = 16\nNAXIS   = 2\nNAXIS1  = -5\nNAXIS2  = 4\n", "little");
  BOOST_TEST(code() == ExitCode::bad_data);
  write_raw(path, "SIMPLE  = T\nBITPIX  = 17\nNAXIS   = 2\nNAXIS1  = 5\nNAXIS2  = 4\n", "little");
  BOOST_TEST(code() == ExitCode::bad_data);
  write_raw(path, "SIMPLE  = T\nBITPIX  = 16\nNAXIS   = 0\n");
  BOOST_TEST(code(&message) == ExitCode::bad_data);
  BOOST_TEST(message.find("0 PRIMARY (no data)") != std::string::npos);
  write_raw(path, "SIMPLE  = T\nBITPIX  = 16\nNAXIS   = 1\nNAXIS1  = 5\n", std::string(10, 'x'));
  BOOST_TEST(code() == ExitCode::bad_data);

  std::ofstream(path, std::ios::binary) << Header::from_lines(kImage3x2).text().substr(0, 5 * 80);  // no END
  BOOST_TEST(code() == ExitCode::bad_data);
  std::string endless = Header::from_lines(kImage3x2).text().substr(0, 5 * 80);
  endless.resize(10 * 2880, ' ');
  std::ofstream(path, std::ios::binary) << endless;
  BOOST_TEST(code() == ExitCode::bad_data);
}

BOOST_AUTO_TEST_CASE(every_truncation_of_a_file_is_handled) {
  const Scratch scratch;
  write_three(scratch / "whole.fits");
  std::string bytes;
  {
    std::ifstream file(scratch / "whole.fits", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (std::size_t length = 0; length < bytes.size(); length += 720) {
    std::ofstream(scratch / "part.fits", std::ios::binary) << bytes.substr(0, length);
    for (const char* hdu : {"", "2"}) {
      const ExitCode code = exit_code_of([&] { read_image(scratch / "part.fits", {hdu}); });
      BOOST_TEST((code == ExitCode::ok || code == ExitCode::bad_data || code == ExitCode::usage));
      if (length < 2880) BOOST_TEST(code == ExitCode::bad_data);
      if (std::string(hdu) == "2") BOOST_TEST(code != ExitCode::ok, length);
    }
  }
}

BOOST_AUTO_TEST_CASE(torture_headers_are_read_and_written_whole) {
  const Scratch scratch;
  std::string lines = kImage3x2;
  for (int i = 0; i < 1200; ++i) lines += Card("K" + std::to_string(i % 900), std::int64_t{i}).text() + "\n";
  lines +=
      "HIERARCH ESO DET NAME = 'long keyword' / kept\nBMAJ    =                      / undefined\n\n"
      "lower   = 1\nBAD.KEY = 2\nOBJECT  = 'Z\xfcrich'\n";
  write_raw(scratch / "torture.fits", lines, big_endian<std::int16_t>({0, 1, 2, 3, 4, 5}));
  const Image image = read_image(scratch / "torture.fits");
  BOOST_TEST(image.warnings.size() == 1u);  // for the byte that is not ASCII
  const std::vector<float> pixels(image.pixels.begin(), image.pixels.end());
  const OutputHdu hdu{"", image.header, std::span<const float>(pixels), {3, 2}};
  write_images(scratch / "out.fits", std::span(&hdu, 1));
  const Image back = read_image(scratch / "out.fits");
  BOOST_TEST(back.warnings.empty());
  BOOST_TEST(back.header.get<int>("K299").value() == 299);
  BOOST_TEST(back.header.get<std::string>("ESO DET NAME").value() == "long keyword");
  BOOST_TEST(back.header.has("BMAJ"));
  std::size_t count = 0;
  for (const Card& card : back.header.cards()) count += card.key().starts_with("K") ? 1 : 0;
  BOOST_TEST(count == 1200u);
  BOOST_TEST(back.header.commentary("COMMENT").at(0).find("BAD.KEY = 2") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
