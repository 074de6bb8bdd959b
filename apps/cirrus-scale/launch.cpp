// cirrus-scale as users start it: what needs no libraries is answered here, the rest by cirrus-scale-core (main.cpp).
#include "base/launch.h"

#include "apps/cirrus-scale/table.h"

int main(int argc, char** argv) { return cirrus::launch_program(cirrus::scale_app::table(), argc, argv); }
