// The registry: precedence and sources, messages that name the nearest name, types and limits, --print-config, help.
#include "base/options.h"

#include <boost/test/unit_test.hpp>

#include "base/errors.h"
#include "base/run_options.h"
#include "tests/base/scratch_folder.h"

using namespace cirrus;
using namespace cirrus::test;

namespace {

/// One field of every type, as a verb would have them.
struct Verb {
  std::vector<std::string> inputs;
  std::string output;
  std::int64_t factor = 4;
  double sigma_max = 40;
  bool png = true;
  bool compress = false;
  std::string sampler = "dpmpp";
  std::string tile = "auto";
  std::string packing = "none";
  std::optional<double> noise;
  std::optional<std::int64_t> plane;
  std::optional<std::string> beam;
  std::optional<bool> keep;
  std::vector<std::string> methods = {"bicubic", "mean"};
  std::vector<std::string> overrides;
  std::vector<std::string> pair;
  std::vector<std::int64_t> widths = {32, 64};
  std::vector<double> levels;
  std::vector<double> span = {1, 2};

  Options options{"cirrus enhance", "Sharpen a map."};
  RunOptions run;

  Verb() {
    options.group("Input");
    options.positionals("IN.fits", inputs, "maps to sharpen", 0);
    options.add("plane", plane, "plane of a cube");
    options.group("Output");
    options.add("output", output, "name of the output").short_flag('o').metavar("OUT.fits");
    options.add("png", png, "write a picture");
    options.group("Super-resolution");
    options.add("factor", factor, "upscaling factor").one_of({"2", "4"});
    options.add("sigma_max", sigma_max, "highest noise level").range(0.1, 200);
    options.add("compress", compress, "compress the output").short_flag('c');
    options.add("sampler", sampler, "how to sample").one_of({"dpmpp", "heun", "euler", "mean"});
    options.add("tile", tile, "tile size").default_text("what fits in memory");
    options.add("packing", packing, "how to pack").implied("lossless");
    options.add("noise", noise, "noise of the map").range(0);
    options.add("beam", beam, "beam").check([this] { return beam->ends_with("arcsec") ? "" : "not an angle"; });
    options.add("keep", keep, "keep");
    options.add("methods", methods, "methods to compare").one_of({"bicubic", "wiener", "mean"});
    options.add("override", overrides, "types by pattern").whole();
    options.add("pair", pair, "two maps").words(2).flag_only();
    options.add("network.widths", widths, "channels by level").range(1);
    options.add("network.deep.levels", levels, "levels");
    options.add("span", span, "two limits").interval();
    add_run_options(options, run);
  }
  bool parse(std::vector<std::string> words) { return options.parse({std::move(words), nullptr}); }
};

void fails(ExitCode code, const std::vector<std::string>& words, const std::string& part) {
  Verb verb;
  BOOST_CHECK_EXCEPTION(verb.parse(words), Error, [&](const Error& error) {
    const std::string text = error.what();
    BOOST_TEST(text.find(part) != std::string::npos, text << " should say " << part);
    return error.code() == code;
  });
}

using Strings = std::vector<std::string>;
constexpr auto each = boost::test_tools::per_element();

}  // namespace

BOOST_AUTO_TEST_SUITE(option_values)

BOOST_AUTO_TEST_CASE(without_words_the_defaults_of_the_struct_stay) {
  Verb verb;
  BOOST_TEST(verb.parse({}));
  BOOST_TEST(verb.factor == 4);
  BOOST_TEST(verb.png);
  BOOST_TEST(!verb.noise.has_value());
  BOOST_TEST(!verb.options.given("factor"));
  BOOST_TEST(verb.run.device == "auto");
  BOOST_TEST(verb.run.seed == 0);
}

BOOST_AUTO_TEST_CASE(every_form_of_flag_is_understood) {
  Verb verb;
  BOOST_TEST(verb.parse({"a.fits", "-oout.fits", "--factor=2", "--sigma-max", "1e1", "--no-png", "-qc", "--noise",
                         "+.5", "-", "--packing", "-3", "--keep=no", "--", "--b.fits"}));
  const Strings inputs = {"a.fits", "-", "-3", "--b.fits"};
  BOOST_TEST(verb.inputs == inputs, each);
  BOOST_TEST(verb.output == "out.fits");
  BOOST_TEST(verb.factor == 2);
  BOOST_TEST(verb.sigma_max == 10.0);
  BOOST_TEST((!verb.png && verb.run.quiet && verb.compress));
  BOOST_TEST(verb.noise.value() == 0.5);
  BOOST_TEST(verb.packing == "lossless");
  BOOST_TEST(verb.keep.value() == false);
  Verb other;
  BOOST_TEST(other.parse({"--packing=lossy", "--png=false", "--tile", "-1", "--output=--odd--"}));
  BOOST_TEST(other.packing == "lossy");
  BOOST_TEST(!other.png);
  BOOST_TEST(other.tile == "-1");
  BOOST_TEST(other.output == "--odd--");
}

BOOST_AUTO_TEST_CASE(lists_are_split_repeated_and_counted) {
  Verb verb;
  BOOST_TEST(verb.parse({"--methods", "wiener", "--methods=mean,bicubic", "--override", "a,b=Q4", "--override", "c=Q8",
                         "--pair", "lr.fits", "hr,1.fits", "last.fits", "--set", "network.widths=8,16", "--set",
                         "network.deep.levels=[1, 2.5]"}));
  BOOST_TEST(verb.methods == (Strings{"wiener", "mean", "bicubic"}), each);
  BOOST_TEST(verb.overrides == (Strings{"a,b=Q4", "c=Q8"}), each);
  BOOST_TEST(verb.pair == (Strings{"lr.fits", "hr,1.fits"}), each);
  BOOST_TEST(verb.inputs == (Strings{"last.fits"}), each);
  BOOST_TEST(verb.widths == (std::vector<std::int64_t>{8, 16}), each);
  BOOST_TEST(verb.levels == (std::vector<double>{1, 2.5}), each);
}

BOOST_AUTO_TEST_CASE(precedence_is_default_file_environment_set_flag) {
  const ScratchFolder folder;
  put(folder / "a.toml", "factor = 2\nsigma_max = 1\nsampler = \"heun\"\nseed = 5\n[network]\nwidths = [1]\n");
  put(folder / "b.toml", "seed = 6\n");
  const Environment sigma("CIRRUS_SIGMA_MAX", "2"), sampler("CIRRUS_SAMPLER", "euler"),
      widths("CIRRUS_NETWORK_WIDTHS", "2,3"), empty("CIRRUS_LOG", "");
  Verb verb;
  BOOST_TEST(verb.parse({"--sampler", "mean", "--config", (folder / "a.toml").string(), "--set", "sampler=dpmpp",
                         "--set", "network.widths = 4", "--config=" + (folder / "b.toml").string()}));
  BOOST_TEST(verb.factor == 2);
  BOOST_TEST(verb.sigma_max == 2.0);
  BOOST_TEST(verb.widths == (std::vector<std::int64_t>{4}), each);
  BOOST_TEST(verb.sampler == "mean");
  BOOST_TEST(verb.run.seed == 6);
  const Options& options = verb.options;
  BOOST_TEST((options.source("factor") == Source::file));
  BOOST_TEST((options.source("sigma_max") == Source::environment));
  BOOST_TEST((options.source("network.widths") == Source::set));
  BOOST_TEST((options.source("sampler") == Source::flag));
  BOOST_TEST((options.source("tile") == Source::by_default));
  BOOST_TEST((options.source("log") == Source::by_default));
}

BOOST_AUTO_TEST_CASE(a_flag_replaces_the_list_of_a_file) {
  const ScratchFolder folder;
  put(folder / "a.toml", "methods = [\"wiener\"]\n");
  Verb verb;
  BOOST_TEST(verb.parse({"--config", (folder / "a.toml").string(), "--methods", "mean"}));
  BOOST_TEST(verb.methods == (Strings{"mean"}), each);
}

BOOST_AUTO_TEST_CASE(files_may_give_numbers_for_words_and_whole_reals_for_integers) {
  const ScratchFolder folder;
  put(folder / "a.toml", "tile = 128\nseed = 1e5\nsigma_max = 3\nnoise = 1\n");
  Verb verb;
  BOOST_TEST(verb.parse({"--config", (folder / "a.toml").string()}));
  BOOST_TEST(verb.tile == "128");
  BOOST_TEST(verb.run.seed == 100000);
  BOOST_TEST(verb.sigma_max == 3.0);
  BOOST_TEST(verb.noise.value() == 1.0);
}

BOOST_AUTO_TEST_CASE(lists_of_inputs_are_expanded) {
  const ScratchFolder folder;
  put(folder / "list", "a.fits\nb.fits\n");
  Verb verb;
  BOOST_TEST(verb.parse({"@" + (folder / "list").string(), "c.fits"}));
  BOOST_TEST(verb.inputs == (Strings{"a.fits", "b.fits", "c.fits"}), each);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(option_errors)

BOOST_AUTO_TEST_CASE(unknown_flags_are_64_and_name_the_nearest) {
  fails(ExitCode::usage, {"--sigma-mx", "4"}, "unknown flag --sigma-mx (did you mean --sigma-max?)");
  fails(ExitCode::usage, {"--no-pgn"}, "did you mean --no-png?");
  fails(ExitCode::usage, {"--overw"}, "did you mean --overwrite?");
  fails(ExitCode::usage, {"--no-factor"}, "unknown flag --no-factor");
  fails(ExitCode::usage, {"-Z"}, "unknown flag -Z");
  fails(ExitCode::usage, {"--cofnig=x"}, "did you mean --config?");
}

BOOST_AUTO_TEST_CASE(wrong_values_of_flags_are_64_and_name_flag_and_value) {
  fails(ExitCode::usage, {"--seed", "abc"}, "--seed abc: not a whole number");
  fails(ExitCode::usage, {"--seed", "1.5"}, "--seed 1.5: not a whole number");
  fails(ExitCode::usage, {"--seed", "99999999999999999999"}, "not a whole number");
  fails(ExitCode::usage, {"--seed="}, "not a whole number");
  fails(ExitCode::usage, {"--sigma-max", "4x"}, "--sigma-max 4x: not a number");
  fails(ExitCode::usage, {"--sigma-max", "nan"}, "not a number");
  fails(ExitCode::usage, {"--sigma-max", "0.05"}, "not between 0.1 and 200");
  fails(ExitCode::usage, {"--noise", "-1"}, "below 0");
  fails(ExitCode::usage, {"--factor", "3"}, "not one of 2, 4");
  fails(ExitCode::usage, {"--sampler", "huen"}, "not one of dpmpp, heun, euler, mean (did you mean heun?)");
  fails(ExitCode::usage, {"--methods", "mean,bicubik"}, "did you mean bicubic?");
  fails(ExitCode::usage, {"--beam", "18"}, "--beam 18: not an angle");
  fails(ExitCode::usage, {"--png=maybe"}, "--png maybe: not true or false");
  fails(ExitCode::usage, {"--device", "gpu"}, "not one of auto, cpu, cuda, cuda:N, hpu");
}

BOOST_AUTO_TEST_CASE(missing_and_superfluous_words_are_64) {
  fails(ExitCode::usage, {"--factor"}, "--factor needs a value");
  fails(ExitCode::usage, {"--factor", "--json"}, "--factor needs a value");
  fails(ExitCode::usage, {"--pair", "one"}, "--pair needs a value");
  fails(ExitCode::usage, {"--no-png=yes"}, "--no-png takes no value");
  fails(ExitCode::usage, {"--set", "seed"}, "key=value");

  std::vector<std::string> words;
  Options two("x two", "");
  two.positionals("MAP", words, "the maps", 2, 2);
  BOOST_CHECK_EXCEPTION(two.parse({{"a"}, nullptr}), Error, [](const Error& e) { return e.code() == ExitCode::usage; });
  Options three("x two", "");
  three.positionals("MAP", words, "the maps", 2, 2);
  BOOST_CHECK_EXCEPTION(three.parse({{"a", "b", "c"}, nullptr}), Error, [](const Error& e) {
    return e.code() == ExitCode::usage && std::string(e.what()).find("\"c\"") != std::string::npos;
  });
  Options none("x none", "");
  BOOST_CHECK_EXCEPTION(none.parse({{"a"}, nullptr}), Error,
                        [](const Error& e) { return e.code() == ExitCode::usage; });
  std::string out;
  Options needy("x needy", "");
  needy.add("output", out, "where to").required();
  BOOST_CHECK_EXCEPTION(needy.parse({{}, nullptr}), Error, [](const Error& e) {
    return e.code() == ExitCode::usage && std::string(e.what()) == "x needy needs --output: where to";
  });
}

BOOST_AUTO_TEST_CASE(configuration_errors_are_78_and_name_file_and_line) {
  const ScratchFolder folder;
  const auto file_fails = [&](const std::string& text, const std::string& part) {
    put(folder / "c.toml", text);
    fails(ExitCode::config, {"--config", (folder / "c.toml").string()},
          (folder / "c.toml").string() + ", line " + part);
  };
  file_fails("# x\nsigma_mx = 4\n", "2: unknown key sigma_mx (did you mean sigma_max?)");
  file_fails("[network]\n\nwidth = [4]\n", "3: unknown key network.width (did you mean network.widths?)");
  file_fails("pair = [\"a\", \"b\"]\n", "1: unknown key pair");
  file_fails("seed = \"abc\"\n", "1: seed = abc: not a whole number");
  file_fails("seed = true\n", "1: seed = true: not a whole number");
  file_fails("png = 1\n", "1: png = 1: not true or false");
  file_fails("seed = [1]\n", "1: seed = [1]: not a single value");
  file_fails("methods = \"mean\"\n", "1: methods = mean: not a list");
  file_fails("factor = 3\n", "1: factor = 3: not one of 2, 4");
  file_fails("\n\nbeam = 18\n", "3: beam = 18: not an angle");
  file_fails("network.widths = [4, 0]\n", "1: network.widths = [4, 0]: below 1");
  file_fails("network.widths = [[1]]\n", "1: network.widths = [...]: not a value Cirrus can read");
  file_fails("seed = 2020-01-01\n", "1: seed = ...: not a value Cirrus can read");
  file_fails("seed = 1\nseed = \n", "2: not valid TOML");
  fails(ExitCode::no_input, {"--config", (folder / "none.toml").string()}, "none.toml");
}

BOOST_AUTO_TEST_CASE(lists_have_the_length_and_order_they_need) {
  for (const char* value : {"5", "[5]", "[]", "[1, 2, 3]"})
    fails(ExitCode::config, {"--set", std::string("span=") + value}, "needs 2 values");
  fails(ExitCode::config, {"--set", "span=[2, 1]"}, "smaller");
  fails(ExitCode::usage, {"--span", "2", "1"}, "smaller");
  Verb verb;
  BOOST_TEST(verb.parse({"--set", "span=[2, 2]"}));
}

BOOST_AUTO_TEST_CASE(environment_and_set_are_78_and_say_so) {
  {
    const Environment seed("CIRRUS_SEED", "x");
    fails(ExitCode::config, {}, "environment variable CIRRUS_SEED: seed = x: not a whole number");
  }
  fails(ExitCode::config, {"--set", "seeed=1"}, "--set: unknown key seeed (did you mean seed?)");
  fails(ExitCode::config, {"--set", "seed=x"}, "--set: seed = x: not a whole number");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(option_texts)

BOOST_AUTO_TEST_CASE(print_config_names_sources_and_reads_back) {
  const ScratchFolder folder;
  const Environment sampler("CIRRUS_SAMPLER", "heun");
  put(folder / "a.toml", "\nfactor = 2\n");
  const std::string odd = "a \"b\" \\ c\td\x01 \xc3\xa9\ne";
  const Strings words = {"--config",     (folder / "a.toml").string(),
                         "--tile",       odd,
                         "--set",        "network.deep.levels=1,0.1,1e300,inf",
                         "--noise=3",    "--no-png",
                         "--override=x", "--sigma-max=12.5",
                         "--keep",       "--seed=9007199254740993"};
  Verb first;
  Strings with_print = words;
  with_print.push_back("--print-config");
  const std::string text = printed(1, [&] { BOOST_TEST(!first.parse(with_print)); });
  const auto says = [&](const std::string& line) {
    BOOST_TEST((text.find("\n" + line + "\n") != std::string::npos), text << " should have the line " << line);
  };
  says("factor = 2  # file " + (folder / "a.toml").string() + ", line 2");
  says("sampler = \"heun\"  # environment variable CIRRUS_SAMPLER");
  says("png = false  # flag --no-png");
  says("levels = [1.0, 0.1, 1e+300, inf]  # --set");
  says("noise = 3.0  # flag --noise");
  says("# plane is not set  # default");
  says("compress = false  # default");

  put(folder / "again.toml", text);
  const Environment no_sampler("CIRRUS_SAMPLER", nullptr);
  Verb second;
  BOOST_TEST(second.parse({"--config", (folder / "again.toml").string()}));
  BOOST_TEST(second.tile == odd);
  BOOST_TEST(second.factor == 2);
  BOOST_TEST(second.sampler == "heun");
  BOOST_TEST(!second.png);
  BOOST_TEST(second.noise.value() == 3.0);
  BOOST_TEST(second.keep.value());
  BOOST_TEST(!second.plane.has_value());
  BOOST_TEST(second.run.seed == 9007199254740993);
  BOOST_TEST(second.levels == first.levels, each);
  BOOST_TEST(second.widths == first.widths, each);
  BOOST_TEST(second.overrides == first.overrides, each);
}

BOOST_AUTO_TEST_CASE(print_config_needs_no_inputs) {
  std::vector<std::string> inputs;
  std::string out;
  Options options("x y", "");
  options.positionals("IN", inputs, "in", 1);
  options.add("output", out, "out").required();
  BOOST_TEST(printed(1, [&] {
               BOOST_TEST(!options.parse({{"--print-config"}, nullptr}));
             }) == "# x y\noutput = \"\"  # default\n");
}

BOOST_AUTO_TEST_CASE(help_is_grouped_and_shows_the_defaults_of_the_struct) {
  Verb verb;
  verb.factor = 2;  // after registration: help must show what the struct said when it was registered
  const std::string text = printed(1, [&] { BOOST_TEST(!verb.parse({"--help", "--seed", "x"})); });
  const auto position = [&](const std::string& part) {
    BOOST_TEST((text.find(part) != std::string::npos), text << " should have " << part);
    return text.find(part);
  };
  BOOST_TEST(position("\nInput\n") < position("\nOutput\n"));
  BOOST_TEST(position("\nOutput\n") < position("\nSuper-resolution\n"));
  BOOST_TEST(position("\nSuper-resolution\n") < position("\nDevice and run\n"));
  BOOST_TEST(position("\nDevice and run\n") < position("\nConfiguration keys"));
  position("  -o, --output OUT.fits ");
  position("      --no-png ");
  position("upscaling factor: 2|4 (default: 4)");
  position("tile size (default: what fits in memory)");
  position("--packing[=TEXT]");
  position("network.widths              channels by level (default: 32,64)");
  BOOST_TEST(text.find("(default: false)") == std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) BOOST_TEST(line.size() <= 100u, line);
}

BOOST_AUTO_TEST_CASE(flags_are_listed_for_completion) {
  Verb verb;
  std::vector<FlagInfo> flags;
  BOOST_TEST(!verb.options.parse({{}, &flags}));
  const auto find = [&](const std::string& name) {
    for (const FlagInfo& flag : flags) {
      if (flag.flag == name) return flag;
    }
    BOOST_ERROR("no flag " + name);
    return FlagInfo();
  };
  BOOST_TEST(find("--sampler").choices.size() == 4u);
  BOOST_TEST(find("--sampler").takes_value);
  BOOST_TEST(!find("--no-png").takes_value);
  BOOST_TEST(!find("--packing").takes_value);
  BOOST_TEST(find("--set").takes_value);
}

BOOST_AUTO_TEST_CASE(a_key_is_registered_once) {
  Verb verb;
  BOOST_CHECK_THROW(verb.options.add("seed", verb.run.seed, "again"), Error);
}

BOOST_AUTO_TEST_SUITE_END()
