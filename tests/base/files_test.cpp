// Files are whole or absent: after an exception, a kill and a full disk; outputs are refused before long work; hashes.
#include "base/files.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "base/errors.h"
#include "tests/base/scratch_folder.h"

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

namespace {

auto with_code(ExitCode code, const std::string& part = "") {
  return [=](const Error& error) {
    BOOST_TEST_MESSAGE(error.what());
    return error.code() == code && std::string(error.what()).find(part) != std::string::npos;
  };
}

/// Runs `action` in a child process; its wait status.
template <class Action>
int in_child(Action action) {
  const pid_t child = fork();
  if (child == 0) {
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(atomic_files)

BOOST_AUTO_TEST_CASE(a_committed_file_is_whole_and_leaves_nothing_beside_it) {
  const ScratchFolder folder;
  AtomicFile file(folder / "map.fits.gz");
  BOOST_TEST(file.temporary().extension() == ".gz");
  BOOST_TEST(file.temporary().parent_path() == folder.path());
  file.write("half ");
  BOOST_TEST(!fs::exists(folder / "map.fits.gz"));
  file.write("whole");
  file.commit();
  BOOST_TEST(contents(folder / "map.fits.gz") == "half whole");
  BOOST_TEST(folder.count() == 1u);
}

BOOST_AUTO_TEST_CASE(a_library_may_replace_the_temporary_file) {
  const ScratchFolder folder;
  AtomicFile file(folder / "map.png");
  fs::remove(file.temporary());
  put(file.temporary(), "made elsewhere");
  file.commit();
  BOOST_TEST(contents(folder / "map.png") == "made elsewhere");
}

BOOST_AUTO_TEST_CASE(an_exception_leaves_nothing) {
  const ScratchFolder folder;
  try {
    AtomicFile file(folder / "map.fits");
    file.write("half");
    throw std::runtime_error("model failed");
  } catch (const std::runtime_error&) {
  }
  BOOST_TEST(folder.count() == 0u);
}

BOOST_AUTO_TEST_CASE(an_exception_leaves_the_older_file_when_overwriting) {
  const ScratchFolder folder;
  put(folder / "map.fits", "older");
  { AtomicFile(folder / "map.fits", true).write("newer"); }
  BOOST_TEST(contents(folder / "map.fits") == "older");
  write_text(folder / "map.fits", "newer", true);
  BOOST_TEST(contents(folder / "map.fits") == "newer");
}

BOOST_AUTO_TEST_CASE(a_kill_leaves_no_half_file_under_the_final_name) {
  const ScratchFolder folder;
  const int status = in_child([&] {
    AtomicFile file(folder / "map.fits");
    file.write("half");
    kill(getpid(), SIGKILL);
  });
  BOOST_TEST(WIFSIGNALED(status));
  BOOST_TEST(!fs::exists(folder / "map.fits"));
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_an_io_error_and_leaves_nothing) {
  const ScratchFolder folder;
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_text(folder / "map.fits", std::string(5000, 'x'));
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
  });
  BOOST_TEST(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 74);
  BOOST_TEST(folder.count() == 0u);
}

BOOST_AUTO_TEST_CASE(a_file_that_appears_meanwhile_is_not_replaced) {
  const ScratchFolder folder;
  AtomicFile file(folder / "map.fits");
  file.write("ours");
  put(folder / "map.fits", "theirs");
  BOOST_CHECK_EXCEPTION(file.commit(), Error, with_code(ExitCode::cannot_create, "exists"));
  BOOST_TEST(contents(folder / "map.fits") == "theirs");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(output_checks)

BOOST_AUTO_TEST_CASE(outputs_that_cannot_be_made_are_refused_with_73) {
  const ScratchFolder folder;
  put(folder / "in.fits", "x");
  put(folder / "old.fits", "x");
  fs::create_symlink(folder / "in.fits", folder / "link.fits");
  fs::create_symlink(folder / "nowhere", folder / "dangling.fits");
  fs::create_directory(folder / "sub");
  const auto refused = [&](const std::string& name, bool overwrite, const std::string& part) {
    BOOST_CHECK_EXCEPTION(require_writable_output(folder / name, overwrite, {folder / "in.fits"}), Error,
                          with_code(ExitCode::cannot_create, part));
  };
  refused("old.fits", false, "--overwrite");
  refused("dangling.fits", false, "exists");
  refused("in.fits", true, "is the input");
  refused("link.fits", true, "is the input");
  refused("sub/../in.fits", true, "is the input");
  refused("sub", true, "is a folder");
  refused("sub/", true, "no file name");
  refused("none/out.fits", false, "does not exist");
  refused("old.fits/out.fits", false, "not a folder");
  require_writable_output(folder / "old.fits", true, {folder / "in.fits"});
  require_writable_output(folder / "new.fits", false, {folder / "in.fits"});
  require_writable_output("-", false);
  BOOST_TEST(!fs::exists(folder / "new.fits"));
}

BOOST_AUTO_TEST_CASE(a_folder_without_write_permission_is_refused) {
  const ScratchFolder folder;
  fs::create_directory(folder / "sub");
  chmod((folder / "sub").c_str(), 0500);
  const int status = in_child([&] {
    if (getuid() == 0 && setuid(65534) != 0) _exit(1);  // root may write anywhere
    chmod(folder.path().c_str(), 0755);
    try {
      require_writable_output(folder / "sub" / "out.fits", false);
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
  });
  BOOST_TEST(WEXITSTATUS(status) == 73);
}

BOOST_AUTO_TEST_CASE(a_leading_exclamation_mark_means_overwrite) {
  BOOST_TEST(output_name("!out.fits", false).path == "out.fits");
  BOOST_TEST(output_name("!out.fits", false).overwrite);
  BOOST_TEST(!output_name("out.fits", false).overwrite);
  BOOST_TEST(output_name("out.fits", true).overwrite);
}

BOOST_AUTO_TEST_CASE(missing_inputs_are_66) {
  const ScratchFolder folder;
  BOOST_CHECK_EXCEPTION(read_text(folder / "none"), Error, with_code(ExitCode::no_input, "none"));
  BOOST_CHECK_EXCEPTION(sha256_file(folder / "none"), Error, with_code(ExitCode::no_input, "none"));
  BOOST_CHECK_EXCEPTION(read_text(folder.path()), Error, with_code(ExitCode::io));
  BOOST_CHECK_EXCEPTION(sha256_file(folder.path()), Error, with_code(ExitCode::io));
}

BOOST_AUTO_TEST_CASE(lists_are_expanded_in_place) {
  const ScratchFolder folder;
  put(folder / "list.txt", "a.fits\n# not this\n\n  name with space.fits \r\nmap.fits[2]\n");
  put(folder / "empty.txt", "# nothing\n");
  const std::string list = "@" + (folder / "list.txt").string();
  const std::vector<std::string> expected = {"x", "a.fits", "name with space.fits", "map.fits[2]", "y"};
  BOOST_TEST(expand_lists({"x", list, "y"}) == expected, boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(expand_lists({"@" + (folder / "none.txt").string()}), Error, with_code(ExitCode::no_input));
  BOOST_CHECK_EXCEPTION(expand_lists({"@" + (folder / "empty.txt").string()}), Error, with_code(ExitCode::bad_data));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(sha_256)

BOOST_AUTO_TEST_CASE(the_published_examples) {
  // FIPS 180-2 appendix B and the NIST short-message vectors; the last crosses every block boundary.
  BOOST_TEST(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  BOOST_TEST(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
             "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  BOOST_TEST(sha256(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

BOOST_AUTO_TEST_CASE(a_file_hashes_like_its_bytes_at_every_length_around_a_block) {
  const ScratchFolder folder;
  for (const std::size_t length : {0u, 1u, 55u, 56u, 63u, 64u, 65u, 1u << 20, (1u << 20) + 1u}) {
    const std::string bytes(length, '\xff');
    put(folder / "bytes", bytes);
    BOOST_TEST(sha256_file(folder / "bytes") == sha256(bytes));
  }
}

BOOST_AUTO_TEST_SUITE_END()
