// Dispatch of verbs and the last catch; see program.h.
#include "base/program.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/completion.h"
#include "base/errors.h"
#include "base/first_line.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/run_options.h"
#include "base/signals.h"
#include "base/version.h"

namespace cirrus {
namespace {

std::string program_help(const Program& program) {
  std::string text =
      program.name + ": " + program.summary + "\n\nUsage: " + program.name + " VERB [options]\n\nVerbs\n";
  std::size_t width = 10;
  for (const Verb& verb : program.verbs) width = std::max(width, verb.name.size());
  const auto row = [&](const std::string& name, const std::string& summary) {
    text += "  " + name + std::string(width + 2 - name.size(), ' ') + summary + "\n";
  };
  for (const Verb& verb : program.verbs) row(verb.name, verb.summary);
  row("help", "help VERB: the options of a verb");
  row("completion", "completion bash|zsh|fish: a completion script");
  return text + "\nOptions\n  --help, --version, --cite";
}

std::string citation(const Program& program) {
  std::string text =
      "@software{cirrus,\n  author = {{Cirrus developers}},\n  title = {Cirrus: diffusion super-resolution of "
      "Galactic dust maps},\n  version = {" +
      std::string(kVersion) + "}\n}";
  return program.citation.empty() ? text : text + "\n" + program.citation;
}

const Verb& find_verb(const Program& program, const std::string& name) {
  std::vector<std::string> names = {"help", "completion"};
  for (const Verb& verb : program.verbs) {
    if (verb.name == name) return verb;
    names.push_back(verb.name);
  }
  const std::string kind = name.starts_with('-') ? "unknown flag " : "unknown verb ";
  const std::string nearest =
      name.starts_with('-') ? nearest_name(name, {"--help", "--version", "--cite"}) : nearest_name(name, names);
  throw Error(ExitCode::usage, kind + name, "did you mean " + nearest + "? " + program.name + " --help lists all");
}

int run_words(const Program& program, const std::vector<std::string>& words) {
  const auto stop = std::find(words.begin(), words.end(), "--");
  const auto has = [&](const char* word) { return std::find(words.begin(), stop, word) != stop; };
  if (has("--version")) return log::print(program.name + " " + kVersion), 0;
  if (has("--cite")) return log::print(citation(program)), 0;
  if (words.empty()) {
    throw Error(ExitCode::usage, program.name + " needs a verb", program.name + " --help lists them");
  }
  const std::string& first = words[0];
  if (first == "--help" || first == "-h" || (first == "help" && words.size() == 1))
    return log::print(program_help(program)), 0;
  if (first == "help" && (words[1] == "help" || words[1] == "completion")) return log::print(program_help(program)), 0;
  if (first == "help") return find_verb(program, words[1]).run({{"--help"}, nullptr});
  if (first == "completion") {
    if (words.size() != 2) throw Error(ExitCode::usage, "completion needs a shell", "bash, zsh or fish");
    return log::print(completion_script(program, words[1])), 0;
  }
  const Verb& verb = find_verb(program, first);
  log::set_program(program.name + " " + verb.name);
  return verb.run({{words.begin() + 1, words.end()}, nullptr});
}

FailureReport (*failure_hook)(int, const std::string&) = nullptr;

int report(ExitCode code, const std::string& given, bool json) {
  const FailureReport failure = failure_hook != nullptr ? failure_hook(static_cast<int>(code), given)
                                                        : FailureReport{true, "", static_cast<int>(code)};
  const std::string message = failure.prefix + given;
  // Every rank reads the same command line and configuration: one of them says what is wrong with it.
  const bool shared_by_ranks = code == ExitCode::usage || code == ExitCode::config;
  log::set_status_line("");
  if (failure.report && (log::speaking() || !shared_by_ranks || !failure.prefix.empty())) log::error(message);
  if (json) {
    const nlohmann::json object = {{"error", {{"code", failure.code}, {"message", message}}}};
    log::print_json(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return failure.code;
}

/// What to say of an exception that is none of ours.
std::string internal_message(const std::exception& error) {
  std::string text = first_line(error);
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  const bool no_thread = system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
  const bool of_allocator = cut_allocators_place(text);
  if (!no_thread && dynamic_cast<const std::bad_alloc*>(&error) == nullptr && !of_allocator &&
      !text.starts_with("tensors hold "))
    return text;
  return "out of memory: " + (no_thread ? "a thread could not be started" : text) +
         " (free memory, or raise the limits of this shell or container; a smaller map, tile or batch needs less)";
}

}  // namespace

void set_failure_hook(FailureReport (*hook)(int, const std::string&)) { failure_hook = hook; }

int run_program(const Program& program, int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const bool json_typed = std::find(words.begin(), words.end(), "--json") != words.end();
  const auto json = [&] { return json_typed || log::json(); };
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit becomes a write error with a message
  signals::install();
  log::set_program(program.name);
  log::set_speaking(launcher_rank() == 0);
  try {
    const int code = run_words(program, words);
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      // What failed may have failed long ago, and its reason is gone.
      const std::string why = errno != 0 ? std::strerror(errno) : "an earlier write failed";
      return report(ExitCode::io, "cannot write the results to stdout: " + why, false);
    }
    return code;
  } catch (const Error& error) {
    return report(error.code(), error.what(), json());
  } catch (const std::exception& error) {
    return report(ExitCode::internal, internal_message(error), json());
  } catch (...) {
    return report(ExitCode::internal, "an exception of an unknown type", json());
  }
}

int run_program(Program table, const std::map<std::string, int (*)(const Arguments&)>& functions, int argc,
                const char* const* argv) {
  for (Verb& verb : table.verbs) verb.run = functions.at(verb.name);
  return run_program(table, argc, argv);
}

}  // namespace cirrus
