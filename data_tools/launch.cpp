// cirrus-data as users start it: what needs no libraries is answered here, the rest by cirrus-data-core (main.cpp).
#include "base/launch.h"
#include "data_tools/table.h"

int main(int argc, char** argv) { return cirrus::launch_program(cirrus::data_tools::table(), argc, argv); }
