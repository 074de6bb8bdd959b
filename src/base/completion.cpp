// Completion scripts; see completion.h. Where a flag takes a value without fixed choices, file names are offered.
#include "base/completion.h"

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "base/nearest.h"

namespace cirrus {
namespace {

using FlagsByVerb = std::map<std::string, std::vector<FlagInfo>>;

std::string function_name(const Program& program) {
  std::string name = "_" + program.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Text inside single quotes of any of the three shells.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'')
      safe += "'\\''";
    else if (c != '\n')
      safe += c;
  }
  return "'" + safe + "'";
}

std::string verb_names(const Program& program) {
  std::string names;
  for (const Verb& verb : program.verbs) names += verb.name + " ";
  return names + "help completion";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string bash(const Program& program, const FlagsByVerb& verbs) {
  const std::string function = function_name(program);
  std::string text = "# bash completion for " + program.name + ": eval \"$(" + program.name + " completion bash)\"\n" +
                     function +
                     "() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n" +
                     "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '" + verb_names(program) +
                     " --help --version --cite' -- \"$word\"))\n    return\n  fi\n  case \"${COMP_WORDS[1]}\" in\n" +
                     "    help) COMPREPLY=($(compgen -W '" + verb_names(program) + "' -- \"$word\")); return ;;\n" +
                     "    completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$word\")); return ;;\n";
  for (const auto& [verb, flags] : verbs) {
    std::string names, choices;
    for (const FlagInfo& flag : flags) {
      names += flag.flag + " ";
      if (flag.choices.empty()) continue;
      choices += "        " + flag.flag + ") COMPREPLY=($(compgen -W " + quoted(joined(flag.choices)) +
                 " -- \"$word\")); return ;;\n";
    }
    text += "    " + verb + ")\n";
    if (!choices.empty()) text += "      case \"$before\" in\n" + choices + "      esac\n";
    text += "      if [[ \"$word\" == -* ]]; then COMPREPLY=($(compgen -W " + quoted(names) +
            " -- \"$word\")); return; fi ;;\n";
  }
  return text + "  esac\n  COMPREPLY=($(compgen -f -- \"$word\"))\n}\ncomplete -o filenames -F " + function + " " +
         program.name;
}

/// In zsh's _arguments a description must not hold brackets or colons.
std::string zsh_help(std::string text) {
  for (char& c : text) {
    if (c == '[' || c == ']' || c == ':') c = ' ';
  }
  return text;
}

std::string zsh(const Program& program, const FlagsByVerb& verbs) {
  const std::string function = function_name(program);
  std::string text = "#compdef " + program.name + "\n# zsh completion: eval \"$(" + program.name +
                     " completion zsh)\"\n" + function + "() {\n  if (( CURRENT == 2 )); then\n    local -a verbs=(\n";
  for (const Verb& verb : program.verbs) text += "      " + quoted(verb.name + ":" + zsh_help(verb.summary)) + "\n";
  text +=
      "      'help:explain a verb' 'completion:print a completion script'\n    )\n    _describe verb verbs\n    "
      "return\n  fi\n" +
      std::string("  local verb=\"${words[2]}\"\n  shift words\n  (( CURRENT-- ))\n  case \"$verb\" in\n");
  text += "    help) _values verb " + verb_names(program) + " ;;\n    completion) _values shell bash zsh fish ;;\n";
  for (const auto& [verb, flags] : verbs) {
    text += "    " + verb + ") _arguments \\\n";
    for (const FlagInfo& flag : flags) {
      std::string entry = flag.flag + "[" + zsh_help(flag.help) + "]";
      if (flag.takes_value) entry += flag.choices.empty() ? ":value:_files" : ":value:(" + joined(flag.choices) + ")";
      text += "      " + quoted(entry) + " \\\n";
    }
    text += "      '*:file:_files' ;;\n";
  }
  return text + "  esac\n}\ncompdef " + function + " " + program.name;
}

std::string fish(const Program& program, const FlagsByVerb& verbs) {
  const std::string complete = "complete -c " + program.name + " ";
  std::string text = "# fish completion for " + program.name + ": " + program.name + " completion fish | source\n";
  for (const Verb& verb : program.verbs) {
    text += complete + "-n __fish_use_subcommand -f -a " + verb.name + " -d " + quoted(verb.summary) + "\n";
  }
  text += complete + "-n __fish_use_subcommand -f -a help -d 'explain a verb'\n" + complete +
          "-n __fish_use_subcommand -f -a completion -d 'print a completion script'\n" + complete +
          "-n '__fish_seen_subcommand_from help' -f -a '" + verb_names(program) + "'\n" + complete +
          "-n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  for (const auto& [verb, flags] : verbs) {
    for (const FlagInfo& flag : flags) {
      text += complete + "-n '__fish_seen_subcommand_from " + verb + "' -l " + flag.flag.substr(2) + " -d " +
              quoted(flag.help);
      if (flag.takes_value) text += flag.choices.empty() ? " -r" : " -x -a " + quoted(joined(flag.choices));
      text += "\n";
    }
  }
  return text.substr(0, text.size() - 1);
}

}  // namespace

std::string completion_script(const Program& program, const std::string& shell) {
  FlagsByVerb verbs;
  for (const Verb& verb : program.verbs) {
    Arguments arguments;
    arguments.describe = &verbs[verb.name];
    verb.run(arguments);
  }
  if (shell == "bash") return bash(program, verbs);
  if (shell == "zsh") return zsh(program, verbs);
  if (shell == "fish") return fish(program, verbs);
  throw Error(ExitCode::usage, "no completion for \"" + shell + "\"",
              "did you mean " + nearest_name(shell, {"bash", "zsh", "fish"}) + "?");
}

}  // namespace cirrus
