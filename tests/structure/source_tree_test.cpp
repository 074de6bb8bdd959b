// The source tree keeps its own rules, and a tree that does not is told where it breaks them.
#include "tests/structure/source_tree.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "tests/base/scratch_folder.h"

using namespace cirrus::test;
namespace fs = std::filesystem;

namespace {

/// A small tree that keeps every rule; tests then break one.
struct SmallTree {
  ScratchFolder scratch;
  SmallTree() {
    for (const char* folder : {"src/base", "src/device", "src/dist", "src/fits", "src/sky", "apps/cirrus"})
      fs::create_directories(scratch / folder);
    write("src/README.md",
          "| folder | holds |\n|---|---|\n| `base/` | a |\n| `device/` | b |\n| `dist/` | c |\n"
          "| `fits/` | d |\n| `sky/` | e |\n");
    write("src/base/errors.h", "// Errors.\n");
    write("src/device/device.h", "// Devices: CUDA too.\n#include \"base/errors.h\"\nint kCUDA;\n");
    write("src/dist/world.h", "// Ranks.\n#include <mpi.h>\n");
    write("src/fits/image.h", "// Images.\n#include <fitsio.h>\n#include \"base/errors.h\"\n");
    write("src/sky/beam.cpp", "// Beams.\n#include <ATen/ATen.h>\n#include \"fits/image.h\"\n");
    write("apps/cirrus/main.cpp",
          "// Program.\n#include \"fits/image.h\"\nconst char* device = \"cuda\";  // not hpu\n");
  }
  void write(const std::string& path, const std::string& text) { put(scratch / path, text); }
  std::vector<std::string> broken() { return breaches(scratch.path()); }

  /// There is one breach, in `path`, and it speaks of `part`.
  void expect_one(const std::string& path, const std::string& part) {
    const std::vector<std::string> found = broken();
    BOOST_TEST_REQUIRE(found.size() == 1u, "expected one breach of " << path << ", found " << found.size());
    BOOST_TEST(found[0].starts_with(path), found[0]);
    BOOST_TEST(found[0].find(part) != std::string::npos, found[0]);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(source_tree)

BOOST_AUTO_TEST_CASE(this_tree_keeps_its_rules) {
  const char* root = std::getenv("CIRRUS_SOURCE");
  BOOST_TEST_REQUIRE(root != nullptr, "CIRRUS_SOURCE must name the source tree");
  BOOST_TEST(folder_order(fs::path(root) / "src" / "README.md").size() >= 10u);
  for (const std::string& breach : breaches(root)) BOOST_ERROR(breach);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(broken_trees)

BOOST_FIXTURE_TEST_CASE(a_tree_that_keeps_the_rules_has_no_breach, SmallTree) { BOOST_TEST(broken().empty()); }

BOOST_FIXTURE_TEST_CASE(an_include_of_a_folder_below_is_found, SmallTree) {
  write("src/base/errors.h", "// Errors.\n\n  #  include \"fits/image.h\"\n");
  expect_one("src/base/errors.h:3", "fits/ stands below base/");
}

BOOST_FIXTURE_TEST_CASE(fits_uses_base_alone, SmallTree) {
  write("src/fits/image.h", "// Images.\n#include \"device/device.h\"\n");
  expect_one("src/fits/image.h:2", "base/ alone");
}

BOOST_FIXTURE_TEST_CASE(the_library_does_not_include_programs, SmallTree) {
  write("src/sky/beam.cpp", "// Beams.\n#include \"apps/cirrus/main.cpp\"\n");
  expect_one("src/sky/beam.cpp:2", "outside the library");
}

BOOST_FIXTURE_TEST_CASE(includes_are_paths_from_src, SmallTree) {
  write("src/sky/beam.cpp", "// Beams.\n#include \"beam.h\"\n");
  expect_one("src/sky/beam.cpp:2", "not a path from src/");
}

BOOST_FIXTURE_TEST_CASE(foreign_names_outside_their_folders_are_found, SmallTree) {
  for (const auto& [code, what] : {std::pair{"#include <cuda_runtime.h>", "CUDA"},
                                   {"auto d = at::kCUDA;", "CUDA"},
                                   {"#include <nccl.h>", "NCCL"},
                                   {"#include <mpi.h>", "MPI"},
                                   {"int r = MPI_Barrier(world);", "MPI"},
                                   {"#include <fitsio.h>", "CFITSIO"},
                                   {"#include <wcslib/wcs.h>", "WCSLIB"}}) {
    write("src/sky/beam.cpp", "// Beams.\n" + std::string(code) + "\n");
    expect_one("src/sky/beam.cpp:2", what);
  }
  write("src/sky/beam.cpp", "// Beams.\n");
  for (const char* code : {"#include <torch/torch.h>", "#include <ATen/ATen.h>", "at::Tensor x;"}) {
    write("src/base/errors.h", "// Errors.\n" + std::string(code) + "\n");
    expect_one("src/base/errors.h:2", "torch");
  }
}

BOOST_FIXTURE_TEST_CASE(comments_and_strings_may_name_anything, SmallTree) {
  write("src/sky/beam.cpp",
        "// Beams.\n/* cuda\n MPI_Send */ const char* a = \"\\\"cuda\"; const char* b = R\"(\n\"nccl)\";\n"
        "const int n = 1'000'000; const char q = '\"'; // hpu\n");
  BOOST_TEST(broken().empty());
  write("src/sky/beam.cpp", "// Beams.\nconst char q = '\"'; int cuda = 1'000;\n");
  expect_one("src/sky/beam.cpp:2", "CUDA");
}

BOOST_FIXTURE_TEST_CASE(long_files_and_files_without_an_opening_comment_are_found, SmallTree) {
  std::string text = "// Beams.\n";
  for (int i = 0; i < 399; ++i) text += "\n";
  write("src/sky/beam.cpp", text);
  BOOST_TEST(broken().empty());
  write("src/sky/beam.cpp", text + "\n");
  expect_one("src/sky/beam.cpp:401", "longer than 400");
  write("src/sky/beam.cpp", "#pragma once\n");
  expect_one("src/sky/beam.cpp:1", "open with a comment");
}

BOOST_FIXTURE_TEST_CASE(folders_and_their_list_agree, SmallTree) {
  fs::create_directories(scratch / "src/new");
  expect_one("src/README.md", "does not list new/");
  fs::remove(scratch / "src/new");
  write("src/README.md", contents(scratch / "src/README.md") + "| `gone/` | f |\n");
  expect_one("src/README.md", "gone/, which does not exist");
}

BOOST_AUTO_TEST_SUITE_END()
