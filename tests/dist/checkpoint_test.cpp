// Checkpoints: they come back bit for bit, and whatever a kill or a bad disk leaves behind is passed over with a
// warning.
#include "dist/checkpoint.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "tests/base/scratch_folder.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;
namespace fs = std::filesystem;

const dist::World kAlone;

dist::Checkpoint checkpoint(std::int64_t step) {
  dist::Checkpoint c;
  c.step = step;
  c.samples = 16 * step;
  c.config_sha256 = "abc";
  c.state = {{"note", "kept"}};
  return c;
}

dist::NamedTensors tensors(std::int64_t step) {
  return {{"model.w", at::arange(6, at::kFloat).view({2, 3}) + static_cast<double>(step)},
          {"ema.w", at::full({4}, step, at::kDouble)},
          {"count", at::scalar_tensor(step, at::kLong)}};
}

fs::path save(const fs::path& dir, std::int64_t step, int keep = 9, bool in_background = false) {
  std::vector<dist::Slice> slices;
  for (const auto& [name, tensor] : tensors(step)) slices.push_back(dist::whole_slice(name, tensor));
  dist::CheckpointWriter writer(dir, kAlone, keep);
  writer.save(checkpoint(step), slices, in_background);
  writer.finish();
  char name[32];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return dir / name;
}

std::vector<std::string> names(const fs::path& dir) {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(dir)) out.push_back(e.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// The step that is found under dir and the warnings it took.
std::pair<std::int64_t, std::string> newest(const fs::path& dir) {
  std::optional<dist::CheckpointReader> found;
  const std::string warnings = printed(2, [&] { found = dist::find_checkpoint(dir, kAlone); });
  return {found ? found->checkpoint().step : -1, warnings};
}

void replace(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = contents(file);
  const auto at = text.find(from);
  BOOST_TEST_REQUIRE(at != std::string::npos, from << " is not in " << text);
  put(file, text.replace(at, from.size(), to));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checkpoints)

BOOST_AUTO_TEST_CASE(a_checkpoint_comes_back_bit_for_bit) {
  for (const bool in_background : {false, true}) {
    const ScratchFolder folder;
    save(folder.path(), 12, 9, in_background);
    const dist::CheckpointReader reader = *dist::find_checkpoint(folder.path(), kAlone);
    BOOST_TEST(reader.folder().filename().string() == "step-00000012");
    const dist::Checkpoint& c = reader.checkpoint();
    BOOST_TEST(c.step == 12);
    BOOST_TEST(c.samples == 192);
    BOOST_TEST(c.config_sha256 == "abc");
    BOOST_TEST(c.strategy == "none");
    BOOST_TEST(c.state.at("note") == "kept");
    for (const auto& [name, tensor] : tensors(12)) {
      BOOST_TEST(at::equal(reader.read(name), tensor), name);
      BOOST_TEST((reader.read(name).scalar_type() == tensor.scalar_type()));
    }
    BOOST_TEST(reader.names().size() == 3u);
  }
}

BOOST_AUTO_TEST_CASE(only_the_newest_are_kept) {
  const ScratchFolder folder;
  for (const std::int64_t step : {5, 10, 15, 20}) save(folder.path(), step, 2);
  BOOST_TEST((names(folder.path()) == std::vector<std::string>{"step-00000015", "step-00000020"}));
  save(folder.path(), 25, 0);  // never none
  BOOST_TEST((names(folder.path()) == std::vector<std::string>{"step-00000025"}));
}

BOOST_AUTO_TEST_CASE(steps_of_nine_digits_are_newer_than_those_of_eight) {
  const ScratchFolder folder;
  save(folder.path(), 99999999);
  save(folder.path(), 100000000);
  BOOST_TEST(newest(folder.path()).first == 100000000);
}

BOOST_AUTO_TEST_CASE(what_is_no_checkpoint_is_left_alone) {
  const ScratchFolder folder;
  for (const char* name : {"step-", "step-x", "step-00000099x", "notes"}) fs::create_directories(folder / name);
  put(folder / "step-00000100", "a file");
  save(folder.path(), 7, 1);
  BOOST_TEST(newest(folder.path()).first == 7);
  BOOST_TEST(fs::exists(folder / "notes"));
  BOOST_TEST(fs::exists(folder / "step-x"));
  BOOST_TEST(fs::exists(folder / "step-00000100"));
}

BOOST_AUTO_TEST_CASE(an_empty_or_absent_folder_holds_none) {
  const ScratchFolder folder;
  BOOST_TEST(!dist::find_checkpoint(folder.path(), kAlone));
  BOOST_TEST(!dist::find_checkpoint(folder / "absent", kAlone));
}

BOOST_AUTO_TEST_CASE(torn_checkpoints_are_skipped_with_a_warning_that_names_them) {
  using Damage = std::function<void(const fs::path&)>;
  const auto manifest = [](const std::string& from, const std::string& to) -> Damage {
    return [=](const fs::path& f) { replace(f / "manifest.json", from, to); };
  };
  const auto shard = [](const fs::path& f) { return f / "rank-00000.safetensors"; };
  const std::vector<std::pair<std::string, Damage>> damages{
      {"no manifest", [](const fs::path& f) { fs::remove(f / "manifest.json"); }},
      {"nothing at all", [](const fs::path& f) { fs::remove_all(f), fs::create_directories(f); }},
      {"no shard", [&](const fs::path& f) { fs::remove(shard(f)); }},
      {"truncated shard", [&](const fs::path& f) { fs::resize_file(shard(f), fs::file_size(shard(f)) - 5); }},
      {"empty shard", [&](const fs::path& f) { put(shard(f), ""); }},
      {"longer shard", [&](const fs::path& f) { put(shard(f), contents(shard(f)) + "x"); }},
      {"flipped byte",
       [&](const fs::path& f) {
         std::string bytes = contents(shard(f));
         bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
         put(shard(f), bytes);
       }},
      {"empty manifest", [](const fs::path& f) { put(f / "manifest.json", ""); }},
      {"manifest cut off", [](const fs::path& f) { fs::resize_file(f / "manifest.json", 200); }},
      {"manifest is a list", [](const fs::path& f) { put(f / "manifest.json", "[]"); }},
      {"manifest is a folder",
       [](const fs::path& f) { fs::remove(f / "manifest.json"), fs::create_directories(f / "manifest.json"); }},
      {"another format", manifest("cirrus-checkpoint/1", "cirrus-checkpoint/2")},
      {"step is text", manifest("\"step\": 20", "\"step\": \"20\"")},
      {"step is negative", manifest("\"step\": 20", "\"step\": -20")},
      {"no samples", manifest("\"samples\"", "\"sample\"")},
      {"a shard elsewhere",
       manifest("\"rank-00000.safetensors\": {", "\"../step-00000010/rank-00000.safetensors\": {")},
      {"files is a number", manifest("\"files\": {", "\"files\": 3, \"old\": {")},
      {"a dtype nobody knows", manifest("\"F32\"", "\"F31\"")},
      {"a shape of another size", manifest("\"shape\": [\n    2,", "\"shape\": [\n    3,")},
      {"a negative shape", manifest("\"shape\": [\n    2,", "\"shape\": [\n    -2,")},
      {"a huge shape", manifest("\"shape\": [\n    2,", "\"shape\": [\n    4611686018427387904,")},
      {"a huge shape of nothing",
       manifest("\"shape\": [\n    2,", "\"shape\": [\n    0, 9223372036854775807, 9223372036854775807,")},
      {"a range beyond the tensor", manifest("\"end\": 6", "\"end\": 7")},
      {"a range that ends early", manifest("\"end\": 6", "\"end\": 5")},
      {"a negative range", manifest("\"begin\": 0,\n     \"end\": 6", "\"begin\": -6,\n     \"end\": 0")},
      {"a range of text", manifest("\"end\": 6", "\"end\": \"6\"")},
      {"a range of 2^63", manifest("\"end\": 6", "\"end\": 9223372036854775808")},
      {"an offset beyond the file", manifest("\"offset\": ", "\"offset\": 9")},
      {"an offset of 2^64 - 1", manifest("\"offset\": ", "\"offset\": 18446744073709551615, \"old\": ")},
      {"a negative offset", manifest("\"offset\": ", "\"offset\": -")},
      {"a shard that is not listed",
       manifest("\"file\": \"rank-00000.safetensors\"", "\"file\": \"rank-00001.safetensors\"")},
  };
  for (const auto& [what, damage] : damages) {
    const ScratchFolder folder;
    save(folder.path(), 10);
    const fs::path torn = save(folder.path(), 20);
    damage(torn);
    const auto [step, warnings] = newest(folder.path());
    BOOST_TEST(step == 10, what << ": loaded step " << step);
    BOOST_TEST(warnings.find("step-00000020") != std::string::npos, what << ": no warning names it: " << warnings);
    // The step is written again, and counts.
    save(folder.path(), 20);
    BOOST_TEST(newest(folder.path()).first == 20, what);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_goes_on_from_an_older_step_outlives_damaged_later_ones) {
  const ScratchFolder folder;
  for (const std::int64_t step : {10, 20, 30}) save(folder.path(), step);
  for (const char* name : {"step-00000020", "step-00000030"}) put(folder / name / "rank-00000.safetensors", "damaged");
  BOOST_TEST(newest(folder.path()).first == 10);
  save(folder.path(), 15, 2);
  BOOST_TEST((names(folder.path()) == std::vector<std::string>{"step-00000010", "step-00000015"}));
  BOOST_TEST(newest(folder.path()).first == 15);
}

BOOST_AUTO_TEST_CASE(unfinished_folders_of_killed_runs_are_cleared_away) {
  const ScratchFolder folder;
  save(folder.path(), 10);
  fs::create_directories(folder / "step-00000015");
  put(folder / "step-00000015" / "rank-00000.safetensors", "half");
  save(folder.path(), 20);
  BOOST_TEST((names(folder.path()) == std::vector<std::string>{"step-00000010", "step-00000020"}));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_said) {
  const ScratchFolder folder;
  put(folder / "file", "in the way");
  try {
    save(folder / "file", 1);
    BOOST_ERROR("no error");
  } catch (const Error& e) {
    BOOST_TEST((e.code() == ExitCode::cannot_create));
  }
}

BOOST_AUTO_TEST_SUITE_END()
