// cirrus as users start it: what needs no libraries is answered here, the rest by cirrus-core (main.cpp).
#include "base/launch.h"
#include "apps/cirrus/table.h"

int main(int argc, char** argv) { return cirrus::launch_program(cirrus::app::table(), argc, argv); }
