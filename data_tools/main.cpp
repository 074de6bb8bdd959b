// cirrus-data-core: prepares maps and training sets.
#include "data_tools/table.h"
#include "data_tools/verbs.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  return run_program(data_tools::table(),
                     {{"info", data_tools::info},
                      {"quicklook", data_tools::quicklook},
                      {"synth", data_tools::synth},
                      {"degrade", data_tools::degrade}},
                     argc, argv);
}
