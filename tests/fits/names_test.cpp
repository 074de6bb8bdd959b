// Names of inputs and outputs, with brackets, plus signs, endings and accents.
#include <fstream>

#include "fits/names.h"
#include "tests/fits/scratch.h"

using namespace cirrus::fits;
using cirrus::fits::testing::Scratch;

BOOST_AUTO_TEST_SUITE(file_names)

BOOST_AUTO_TEST_CASE(outputs_are_named_after_inputs) {
  const std::pair<const char*, const char*> table[] = {
      {"map.fits", "map_x4.fits"},
      {"/no/such/folder/map.fits", "map_x4.fits"},
      {"map.fit", "map_x4.fits"},
      {"map.FTS", "map_x4.fits"},
      {"map.fits.gz", "map_x4.fits"},
      {"map.fits.fz", "map_x4.fits"},
      {"map.fits.bz2", "map_x4.fits"},
      {"map.fits[SCI]", "map_x4.fits"},
      {"dir/map.fits.gz[SCI,2][1:10,5:20]", "map_x4.fits"},
      {"map.fits+2", "map_x4.fits"},
      {"!map.fits", "map_x4.fits"},
      {"file://map.fits", "map_x4.fits"},
      {"map", "map_x4.fits"},
      {"map.v2.fits", "map.v2_x4.fits"},
      {"two words.fits", "two words_x4.fits"},
      {"Z\xc3\xbcrich.fits", "Z\xc3\xbcrich_x4.fits"},
      {"-", "stdin_x4.fits"},
      {".fits", ".fits_x4.fits"},
  };
  for (const auto& [input, output] : table) BOOST_TEST(output_name(input, "_x4", ".fits") == output);
}

BOOST_AUTO_TEST_CASE(an_existing_file_keeps_its_brackets_and_plus_signs) {
  const Scratch scratch;
  for (const char* name : {"map[v2].fits", "a+1.fits", "b+2", "c(3).fits"}) {
    std::ofstream(scratch / name) << "x";
    BOOST_TEST(file_path(scratch / name) == scratch / name);
  }
  BOOST_TEST(output_name(scratch / "map[v2].fits", "_x2", ".png") == "map[v2]_x2.png");
  BOOST_TEST(output_name(scratch / "a+1.fits", "_x2", ".fits") == "a+1_x2.fits");
  BOOST_TEST(file_path(scratch / "map[v2].fits[SCI]") == scratch / "map[v2].fits");
  BOOST_TEST(file_path(scratch / "a+1.fits+3") == scratch / "a+1.fits");
  BOOST_TEST(exists_literally(scratch / "b+2"));
  BOOST_TEST(!exists_literally(scratch / "b"));
}

BOOST_AUTO_TEST_SUITE_END()
