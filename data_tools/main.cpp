// cirrus-data-core: prepares maps and training sets.
#include <map>

#include "data_tools/table.h"
#include "data_tools/verbs.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  const std::map<std::string, int (*)(const Arguments&)> functions{{"info", data_tools::info},
                                                                   {"quicklook", data_tools::quicklook},
                                                                   {"synth", data_tools::synth},
                                                                   {"degrade", data_tools::degrade}};
  Program program = data_tools::table();
  for (Verb& verb : program.verbs) verb.run = functions.at(verb.name);
  return run_program(program, argc, argv);
}
