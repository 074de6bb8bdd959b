// Evaluation of methods, its JSON, requirements and the report: on small skies whose answer is known, with methods
// written here.
#include "enhance/evaluate.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "enhance/plot.h"
#include "enhance/report.h"
#include "metrics/fields.h"

using namespace cirrus;
using namespace cirrus::enhance;

namespace {

MapToEvaluate block_map(std::uint64_t seed, const std::string& name) {
  const at::Tensor truth = tests::dust_sky(seed, 96);
  return {name, "lognormal", "MJy/sr", {truth, tests::block_mean(truth, 4), 4, 0, 2.3, {}}};
}

MapToEvaluate beam_map(std::uint64_t seed, const std::string& name) {
  MapToEvaluate map = block_map(seed, name);
  map.question.beam_lr = 9.2;
  map.question.noise = 0.05;
  return map;
}

/// A calibrated ensemble: truth and members differ from one centre by noise of one size.
NamedMethod oracle() {
  return {"mean", [](const metrics::Case& question) {
            const int64_t rows = question.truth.size(0), columns = question.truth.size(1);
            const at::Tensor centre = question.truth + 0.05 * tests::white_noise({rows, columns}, 98);
            const at::Tensor members = centre + 0.05 * tests::white_noise({6, rows, columns}, 99);
            return Output{members.mean(0), members, {}, 1.5, 16};
          }};
}

std::vector<NamedMethod> methods() { return {baseline_method("bicubic"), baseline_method("wiener"), oracle()}; }

Evaluation small_evaluation(bool keep_pictures = false) {
  return {{evaluate(block_map(1, "one"), methods(), keep_pictures),
           evaluate(block_map(2, "two"), methods(), keep_pictures),
           evaluate(beam_map(3, "three"), methods(), keep_pictures)}};
}

/// A file in the test's temporary folder, removed at the end.
class TextFile {
public:
  explicit TextFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("cirrus_requirements_" + std::to_string(::getpid()) + ".toml")) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluate)

BOOST_AUTO_TEST_CASE(maps_are_scored_and_averaged_by_mode) {
  const Evaluation evaluation = small_evaluation();
  BOOST_TEST(evaluation.maps[0].mode == "block");
  BOOST_TEST(evaluation.maps[2].mode == "beam");
  const std::vector<MethodMean> all = means(evaluation);
  BOOST_REQUIRE_EQUAL(all.size(), 6u);
  BOOST_TEST(all[0].mode == "block");
  BOOST_TEST(all[0].method == "bicubic");
  BOOST_TEST(all[0].maps == 2u);
  BOOST_TEST(*all[0].score.rT == 1.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(
      *all[2].score.rT == (*evaluation.maps[0].answers[2].score.rT + *evaluation.maps[1].answers[2].score.rT) / 2,
      boost::test_tools::tolerance(1e-12));
  BOOST_TEST(all[2].seconds == 1.5);
  BOOST_TEST(all[2].evaluations == 16.0);
  BOOST_TEST(all[3].mode == "beam");
  BOOST_TEST(all[3].maps == 1u);
  BOOST_TEST(all[5].score.chi2.has_value());
  BOOST_TEST(!all[5].score.flux_error.has_value());
  BOOST_TEST(!all[0].score.crps.has_value());
}

BOOST_AUTO_TEST_CASE(json_has_the_promised_shape) {
  const nlohmann::ordered_json json = to_json(small_evaluation());
  BOOST_REQUIRE_EQUAL(json["maps"].size(), 3u);
  const auto& map = json["maps"][0];
  BOOST_TEST(map["name"] == "one");
  BOOST_TEST(map["mode"] == "block");
  for (const char* name : {"rT", "rL", "psnr", "ssim", "ps", "coherence_half", "crps", "coverage68", "coverage95",
                           "spread_skill", "flux_error", "seconds", "evaluations"})
    BOOST_TEST(map["methods"]["mean"].contains(name), name);
  BOOST_TEST(map["methods"]["mean"]["evaluations"].dump() == "16");
  BOOST_TEST(json["maps"][2]["methods"]["wiener"].contains("chi2"));
  BOOST_TEST(json["mean"]["block"]["bicubic"]["rT"].get<double>() == 1.0, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(nlohmann::ordered_json::parse(json.dump()).dump() == json.dump());
}

BOOST_AUTO_TEST_CASE(the_table_has_a_row_a_mode_and_method) {
  const std::string text = table(small_evaluation());
  BOOST_TEST(count_of(text, "\n") == 7u);
  BOOST_TEST(text.starts_with("mode  method"));
  BOOST_TEST(text.find("beam  wiener") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_unknown_baseline_names_the_nearest) {
  BOOST_CHECK_EXCEPTION(baseline_method("weiner"), Error, [](const Error& e) {
    return e.code() == ExitCode::usage && std::string(e.what()).find("wiener") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_method_that_returns_a_wrong_size_is_refused) {
  const NamedMethod wrong{"wrong", [](const metrics::Case& question) { return Output{question.lr, {}, {}, 0, 0}; }};
  BOOST_CHECK_THROW(enhance::evaluate(block_map(1, "one"), {wrong}, false), Error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(requirements)

BOOST_AUTO_TEST_CASE(bounds_are_read_and_held_against_means) {
  const TextFile file(
      "[block.mean]\nrT = {max = 0.83}\ncoverage68 = {min = 0.6, max = 0.76}\nseconds = {max = 1}\n[beam.bicubic]\nrT "
      "= {min = 1.01}\ncrps = {max = 1}\n");
  const std::vector<Requirement> required = read_requirements(file.path());
  BOOST_REQUIRE_EQUAL(required.size(), 5u);
  BOOST_TEST(required[1].figure == "coverage68");
  BOOST_TEST(*required[1].min == 0.6);
  BOOST_TEST(*required[1].max == 0.76);
  const Evaluation evaluation = small_evaluation();
  const std::vector<std::string> sentences = unmet(evaluation, required);
  BOOST_REQUIRE_EQUAL(sentences.size(), 3u);
  BOOST_TEST(sentences[0] == "block mean seconds is 1.5, at most 1 is required");
  BOOST_TEST(sentences[1] == "beam bicubic rT is 1, at least 1.01 is required");
  BOOST_TEST(sentences[2] == "beam bicubic crps was not measured");
  BOOST_TEST(unmet({{evaluation.maps[2]}}, required)[0] == "block mean rT was not measured");
}

BOOST_AUTO_TEST_CASE(not_a_number_meets_nothing) {
  Evaluation evaluation = small_evaluation();
  evaluation.maps[0].answers[2].score.rT = NAN;
  BOOST_TEST(unmet(evaluation, {{"block", "mean", "rT", {}, 1.0}}).size() == 1u);
  BOOST_TEST(unmet(evaluation, {{"block", "mean", "rT", 0.0, {}}}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(mistakes_name_line_and_remedy) {
  const auto fails_with = [](const std::string& text, const std::string& line, const std::string& word) {
    const TextFile file(text);
    BOOST_CHECK_EXCEPTION(read_requirements(file.path()), Error, [&](const Error& e) {
      const std::string what = e.what();
      BOOST_TEST_CONTEXT(what) {
        BOOST_TEST((what.find(line) != std::string::npos && what.find(word) != std::string::npos));
      }
      return e.code() == ExitCode::config;
    });
  };
  fails_with("[block.mean]\ncoverge68 = {max = 1}\n", "line 2", "coverage68");
  fails_with("[block.mean]\nrT = 0.83\n", "line 2", "{max = 0.83}");
  fails_with("[blok.mean]\nrT = {max = 1}\n", "line 2", "block or beam");
  fails_with("[block.mean]\nrT = {most = 1}\n", "line 2", "max");
  fails_with("[block.mean]\nrT = {max = \"1\"}\n", "line 2", "number");
  fails_with("[block.mean\n", "line 1", "TOML");
  fails_with("", "requirement", "[block.mean]");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(report)

BOOST_AUTO_TEST_CASE(one_file_holds_pictures_plots_tables_and_commands) {
  const Evaluation evaluation = small_evaluation(true);
  ReportText text;
  text.title = "Dust <x4>";
  text.notes = {"Model \"a & b\"."};
  text.commands = {"cirrus evaluate --set maps --mode block -o report.html"};
  text.had_requirements = true;
  const std::string html = html_report(evaluation, text);
  BOOST_TEST(html.starts_with("<!doctype html>"));
  BOOST_TEST(html.find("width=device-width") != std::string::npos);
  BOOST_TEST(html.find("Dust &lt;x4&gt;") != std::string::npos);
  BOOST_TEST(html.find("Model &quot;a &amp; b&quot;.") != std::string::npos);
  BOOST_TEST(html.find(text.commands[0]) != std::string::npos);
  BOOST_TEST(html.find("All requirements are met.") != std::string::npos);
  BOOST_TEST(count_of(html, "data:image/png;base64,iVBORw0KGgo") == 3u);
  // A mode has two spectra, one rank histogram (one method has members) and two Minkowski functionals.
  BOOST_TEST(count_of(html, "<svg") == 10u);
  BOOST_TEST(count_of(html, "</svg>") == 10u);
  for (const char* foreign : {"://", "src=\"/", "url("}) BOOST_TEST(html.find(foreign) == std::string::npos, foreign);
  const std::string plots = html.substr(html.find("<svg"), html.rfind("</svg>") - html.find("<svg"));
  BOOST_TEST(plots.find("=\"nan") == std::string::npos);
  BOOST_TEST(plots.find("inf\"") == std::string::npos);
  BOOST_TEST(html_report(evaluation, text) == html);
}

BOOST_AUTO_TEST_CASE(without_pictures_and_with_failures) {
  ReportText text;
  text.had_requirements = true;
  text.unmet = {"block mean rT is 0.9, at most 0.83 is required"};
  const std::string html = html_report(small_evaluation(), text);
  BOOST_TEST(html.find("<img") == std::string::npos);
  BOOST_TEST(html.find("Not met: block mean rT is 0.9") != std::string::npos);
  BOOST_TEST(html.find("All requirements") == std::string::npos);
  BOOST_CHECK_THROW(html_report({}, text), Error);
}

BOOST_AUTO_TEST_CASE(plots_survive_what_cannot_be_drawn) {
  const std::string log_plot = line_plot({{"a", {0, 1, 2, 3}, {1, NAN, 0, 1e9}, 0, false}}, {"x", "y", true, 1.0, 0.5});
  BOOST_TEST(count_of(log_plot, "nan") == 0u);
  BOOST_TEST(count_of(log_plot, "inf") == 0u);
  // The two points left are apart: two subpaths, no line through the gap.
  const size_t path = log_plot.find(" d=\"");
  BOOST_TEST(count_of(log_plot.substr(path, log_plot.find("\"/>", path) - path), "M") == 2u);
  for (const auto& svg :
       {line_plot({}, {"x", "y", false, {}, {}}), line_plot({{"b", {1}, {1}, 9, true}}, {"x", "y", false, {}, {}}),
        bar_plot({}, {"x", "y", false, {}, {}}, 0), bar_plot({NAN, 0}, {"x", "y", false, {}, {}}, 3)})
    BOOST_TEST((svg.starts_with("<svg") && svg.ends_with("</svg>") && svg.find("nan") == std::string::npos &&
                svg.find("inf") == std::string::npos),
               svg);
}

BOOST_AUTO_TEST_SUITE_END()
