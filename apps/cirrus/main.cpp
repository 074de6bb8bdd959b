// cirrus-core: sharpens maps of Galactic dust, trains and evaluates the models that do it.
#include "apps/cirrus/table.h"
#include "apps/cirrus/verbs.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  return run_program(app::table(),
                     {{"enhance", app::enhance},
                      {"train", app::train},
                      {"evaluate", app::evaluate},
                      {"models", app::models},
                      {"devices", app::devices}},
                     argc, argv);
}
