// The table of cirrus-data's verbs.
#include "data_tools/table.h"

namespace cirrus::data_tools {

Program table() {
  return {"cirrus-data",
          "prepare maps of Galactic dust and training sets",
          {
              {"info", "what a FITS file holds: HDUs, sky coordinates, beam, unit, statistics", nullptr},
              {"quicklook", "a PNG picture of one or more maps", nullptr},
              {"synth", "synthetic dust maps with known truth", nullptr},
              {"degrade", "a map as a coarser or noisier telescope would see it", nullptr},
          },
          ""};
}

}  // namespace cirrus::data_tools
