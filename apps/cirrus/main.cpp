// cirrus: sharpens maps of Galactic dust, trains and evaluates the models that do it.
#include "apps/cirrus/verbs.h"
#include "base/program.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  const Program program{
      "cirrus",
      "Diffusion super-resolution of FITS maps of Galactic dust.",
      {
          {"enhance", "upscale FITS maps", app::enhance},
          {"train", "train a super-resolution model on synthetic sky", app::train},
          {"evaluate", "measure how well methods recover maps whose truth is known", app::evaluate},
          {"models", "list the models there are", app::models},
          {"devices", "list the devices that can run here", app::devices},
      },
      ""};
  return run_program(program, argc, argv);
}
