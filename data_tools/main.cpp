// cirrus-data: prepares maps and training sets. The table of its verbs.
#include "base/program.h"
#include "data_tools/verbs.h"

int main(int argc, char** argv) {
  using namespace cirrus::data_tools;
  const cirrus::Program program = {
      "cirrus-data",
      "prepare maps of Galactic dust and training sets",
      {
          {"info", "what a FITS file holds: HDUs, sky coordinates, beam, unit, statistics", info},
          {"quicklook", "a PNG picture of one or more maps", quicklook},
          {"synth", "synthetic dust maps with known truth", synth},
          {"degrade", "a map as a coarser or noisier telescope would see it", degrade},
      },
      "",
  };
  return cirrus::run_program(program, argc, argv);
}
