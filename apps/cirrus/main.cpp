// cirrus-core: sharpens maps of Galactic dust, trains and evaluates the models that do it.
#include <map>

#include "apps/cirrus/table.h"
#include "apps/cirrus/verbs.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  const std::map<std::string, int (*)(const Arguments&)> functions{{"enhance", app::enhance},
                                                                   {"train", app::train},
                                                                   {"evaluate", app::evaluate},
                                                                   {"models", app::models},
                                                                   {"devices", app::devices}};
  Program program = app::table();
  for (Verb& verb : program.verbs) verb.run = functions.at(verb.name);
  return run_program(program, argc, argv);
}
