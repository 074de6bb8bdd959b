// The verbs of cirrus-data, one .cpp file each. They parse flags, call src/ and print.
#pragma once

namespace cirrus {
struct Arguments;
}

namespace cirrus::data_tools {

int info(const Arguments& arguments);
int quicklook(const Arguments& arguments);
int synth(const Arguments& arguments);
int degrade(const Arguments& arguments);

}  // namespace cirrus::data_tools
