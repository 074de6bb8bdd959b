// The safetensors container: what it must read, and the many ways a file can lie about itself.
#include "base/safetensors.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "base/errors.h"
#include "dist/tensor_file.h"
#include "tests/base/scratch_folder.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

/// A file of a header and as many data bytes, 0, 1, 2, ...
std::string file_of(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  text += header;
  for (std::size_t i = 0; i < data; ++i) text.push_back(static_cast<char>(i));
  return text;
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), file.size(), "bad.safetensors");
}

/// One or two tensors in 16 bytes.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& range) {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + range + "}";
}
const std::string kGood =
    "{" + entry("a", "\"F32\"", "[2]", "[0,8]") + "," + entry("b", "\"I64\"", "[1]", "[8,16]") + "}";

std::string le64(std::uint64_t v) {
  std::string s(8, '\0');
  std::memcpy(s.data(), &v, 8);
  return s;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(safetensors)

BOOST_AUTO_TEST_CASE(a_file_of_the_format_document_is_read) {
  // Spaces after the header and metadata, as the format allows.
  const SafetensorsHeader h = parse(file_of("{\"__metadata__\":{\"k\":\"v\"}," + kGood.substr(1) + "     ", 16));
  BOOST_TEST_REQUIRE(h.entries.size() == 2u);
  BOOST_TEST(h.entries[0].name == "a");
  BOOST_TEST(h.entries[1].begin == 8u);
  BOOST_TEST(h.metadata.at("k") == "v");
  BOOST_TEST(parse(file_of("{}", 0)).entries.empty());
  // No dimension: a scalar. No element: a tensor of no bytes.
  BOOST_TEST(parse(file_of("{" + entry("s", "\"F64\"", "[]", "[0,8]") + "}", 8)).entries[0].shape.empty());
  BOOST_TEST(parse(file_of("{" + entry("e", "\"F32\"", "[0,5]", "[0,0]") + "}", 0)).entries.size() == 1u);
}

BOOST_AUTO_TEST_CASE(hostile_files_are_bad_data_that_names_the_file) {
  const std::string good = file_of(kGood, 16);
  BOOST_TEST_REQUIRE(parse(good).entries.size() == 2u);
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& range,
                      std::size_t data = 16) { return file_of("{" + entry("a", dtype, shape, range) + "}", data); };
  const std::vector<std::pair<std::string, std::string>> files{
      {"empty", ""},
      {"seven bytes", good.substr(0, 7)},
      {"header cut off", good.substr(0, 40)},
      {"data cut off", good.substr(0, good.size() - 1)},
      {"bytes after the data", good + "x"},
      {"length 0", le64(0) + good.substr(8)},
      {"length one short", le64(kGood.size() - 1) + good.substr(8)},
      {"length to the end of the file", le64(good.size() - 8) + good.substr(8)},
      {"length beyond the file", le64(good.size() - 7) + good.substr(8)},
      {"length of 2^63", le64(1ull << 63) + good.substr(8)},
      {"length of 2^64 - 1", le64(~0ull) + good.substr(8)},
      {"length that wraps past 8", le64(~0ull - 7) + good.substr(8)},
      {"a FITS file", "SIMPLE  =                    T / conforms to FITS standard" + std::string(100, ' ')},
      {"not JSON", file_of("{\"a\":", 0)},
      {"an array", file_of("[1,2]", 0)},
      {"a number", file_of("7", 0)},
      {"null", file_of("null", 0)},
      {"nested deeply", file_of(std::string(100000, '['), 0)},
      {"text after the object", file_of(kGood + "{}", 16)},
      {"invalid UTF-8", file_of("{\"\xff\xfe\":" + kGood.substr(5), 16)},
      {"entry is a string", file_of("{\"a\":\"F32\"}", 0)},
      {"entry is an array", file_of("{\"a\":[1]}", 0)},
      {"no dtype", file_of("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8)},
      {"no shape", file_of("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8)},
      {"no offsets", file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8)},
      {"dtype is a number", one("32", "[4]", "[0,16]")},
      {"dtype is unknown", one("\"F31\"", "[4]", "[0,16]")},
      {"dtype in lower case", one("\"f32\"", "[4]", "[0,16]")},
      {"dtype of another size", one("\"F64\"", "[4]", "[0,16]")},
      {"shape is a number", one("\"F32\"", "4", "[0,16]")},
      {"shape is an object", one("\"F32\"", "{\"0\":4.5}", "[0,16]")},
      {"negative shape", one("\"F32\"", "[-4]", "[0,16]")},
      {"two negative shapes", one("\"F32\"", "[-2,-2]", "[0,16]")},
      {"fractional shape", one("\"F32\"", "[4.0]", "[0,16]")},
      {"shape of text", one("\"F32\"", "[\"4\"]", "[0,16]")},
      {"shape of 2^63", one("\"F32\"", "[9223372036854775808]", "[0,16]")},
      {"shape that overflows to 4", one("\"F32\"", "[4294967296,4294967296,4]", "[0,16]")},
      {"shape that overflows 128 bits",
       one("\"F32\"", "[9223372036854775807,9223372036854775807,9223372036854775807]", "[0,16]")},
      {"shape beyond 64 bits", one("\"F32\"", "[99999999999999999999]", "[0,16]")},
      {"one offset", one("\"F32\"", "[4]", "[16]")},
      {"three offsets", one("\"F32\"", "[4]", "[0,8,16]")},
      {"negative offset", one("\"F32\"", "[4]", "[-8,8]")},
      {"fractional offset", one("\"F32\"", "[4]", "[0,16.0]")},
      {"offsets of text", one("\"F32\"", "[4]", "[\"0\",\"16\"]")},
      {"offsets are an object", one("\"F32\"", "[4]", "{\"begin\":0,\"end\":16}")},
      {"offsets reversed", one("\"F32\"", "[4]", "[16,0]")},
      {"offsets beyond the file", one("\"F32\"", "[5]", "[0,20]")},
      {"offsets near 2^64", one("\"F32\"", "[4]", "[18446744073709551600,18446744073709551615]")},
      {"offsets shorter than the shape", one("\"F32\"", "[4]", "[0,12]")},
      {"a hole",
       file_of("{" + entry("a", "\"F32\"", "[1]", "[0,4]") + "," + entry("b", "\"F32\"", "[1]", "[8,12]") + "}", 12)},
      {"a hole in front", one("\"F32\"", "[2]", "[8,16]")},
      {"an overlap",
       file_of("{" + entry("a", "\"F32\"", "[2]", "[0,8]") + "," + entry("b", "\"F32\"", "[3]", "[4,16]") + "}", 16)},
      {"twice the same bytes",
       file_of("{" + entry("a", "\"F32\"", "[2]", "[0,8]") + "," + entry("b", "\"F32\"", "[2]", "[0,8]") + "}", 8)},
      {"a name twice",
       file_of("{" + entry("a", "\"F32\"", "[2]", "[0,8]") + "," + entry("a", "\"F32\"", "[2]", "[8,16]") + "}", 16)},
      {"a key twice", file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[4],\"data_offsets\":[0,16]}}", 16)},
      {"metadata is a list", file_of("{\"__metadata__\":[]}", 0)},
      {"metadata is text", file_of("{\"__metadata__\":\"pt\"}", 0)},
      {"metadata of numbers", file_of("{\"__metadata__\":{\"format\":1}}", 0)},
      {"metadata of objects", file_of("{\"__metadata__\":{\"format\":{}}}", 0)},
  };
  const ScratchFolder folder;
  for (const auto& [what, file] : files) {
    put(folder / "bad.safetensors", file);
    try {
      read_safetensors(folder / "bad.safetensors");
      BOOST_ERROR(what << " was read");
    } catch (const Error& e) {
      BOOST_TEST((e.code() == ExitCode::bad_data), what << ": " << e.what());
      BOOST_TEST(std::string(e.what()).find("bad.safetensors: ") != std::string::npos, what << ": " << e.what());
    } catch (const std::exception& e) {
      BOOST_ERROR(what << " gave another exception: " << e.what());
    }
  }
}

BOOST_AUTO_TEST_CASE(every_changed_byte_is_read_or_refused_but_nothing_else) {
  const std::string good = file_of(kGood, 16);
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      try {
        for (const TensorEntry& e : parse(bad).entries) BOOST_TEST(e.end <= 16u);
      } catch (const Error& e) {
        BOOST_TEST((e.code() == ExitCode::bad_data));
      }
    }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(tensor_file)

BOOST_AUTO_TEST_CASE(tensors_come_back_as_they_were) {
  const ScratchFolder folder;
  const at::Tensor image = at::arange(24, at::kFloat).view({2, 3, 4});
  dist::NamedTensors all{{"zz first", image.transpose(0, 2)},
                         {"last channels", at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
                         {"scalar", at::scalar_tensor(7, at::kLong)},
                         {"none", at::empty({0, 3})}};
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                    at::kChar, at::kByte, at::kBool})
    all.emplace_back(c10::toString(type), image.to(type));
  dist::save_tensors(folder / "t.safetensors", all, {{"who", "\"quoted\" \xc3\xa9"}}, false);
  const dist::TensorFile file = dist::load_tensors(folder / "t.safetensors");
  BOOST_TEST_REQUIRE(file.tensors.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(file.tensors[i].first == all[i].first);
    BOOST_TEST((file.tensors[i].second.scalar_type() == all[i].second.scalar_type()));
    BOOST_TEST(at::equal(file.tensors[i].second, all[i].second), all[i].first);
  }
  BOOST_TEST(file.metadata.at("who") == "\"quoted\" \xc3\xa9");

  // Equal tensors give equal bytes; the data begin at a multiple of 8, as readers that map files want.
  dist::save_tensors(folder / "u.safetensors", all, {{"who", "\"quoted\" \xc3\xa9"}}, false);
  const std::string bytes = contents(folder / "t.safetensors");
  BOOST_TEST((bytes == contents(folder / "u.safetensors")));
  BOOST_TEST(read_safetensors(folder / "t.safetensors").header.data_offset % 8 == 0u);
  BOOST_CHECK_THROW(dist::save_tensors(folder / "t.safetensors", all, {}, false), Error);
}

BOOST_AUTO_TEST_CASE(wrong_names_shapes_and_types_are_bad_data) {
  const ScratchFolder folder;
  dist::save_tensors(folder / "t.safetensors", {{"w", at::ones({2, 3})}}, {}, false);
  const dist::TensorFile file = dist::load_tensors(folder / "t.safetensors");
  BOOST_TEST(file.get("w", {2, 3}).sum().item<double>() == 6);
  const auto code = [&](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      return static_cast<int>(e.code());
    }
    return 0;
  };
  BOOST_TEST(code([&] { file.get("w", {3, 2}); }) == 65);
  BOOST_TEST(code([&] { file.get("v", {2, 3}); }) == 65);
  put(folder / "f8.safetensors", file_of("{" + entry("a", "\"F8_E4M3\"", "[4]", "[0,4]") + "}", 4));
  BOOST_TEST(code([&] { dist::load_tensors(folder / "f8.safetensors"); }) == 65);
  // No bytes at all, but more elements than can be counted in its other dimensions.
  put(folder / "vast.safetensors",
      file_of("{" + entry("a", "\"F32\"", "[0,9223372036854775807,9223372036854775807]", "[0,0]") + "}", 0));
  BOOST_TEST(code([&] { dist::load_tensors(folder / "vast.safetensors"); }) == 65);
  BOOST_TEST(code([&] { dist::load_tensors(folder / "absent.safetensors"); }) == 66);
}

BOOST_AUTO_TEST_SUITE_END()
