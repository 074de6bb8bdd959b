// cirrus-scale-core: examines the machines that Cirrus runs on.
#include "apps/cirrus-scale/table.h"
#include "apps/cirrus-scale/verbs.h"

int main(int argc, char** argv) {
  using namespace cirrus;
  return run_program(scale_app::table(), {{"doctor", scale_app::doctor}, {"plan", scale_app::plan}}, argc, argv);
}
