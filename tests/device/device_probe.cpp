// device_probe NAME: opens a device and prints its name; an error goes to stderr and its code is the exit code.
#include <iostream>

#include "base/errors.h"
#include "device/device.h"

int main(int argc, char** argv) {
  try {
    std::cout << cirrus::device::open_device(argc > 1 ? argv[1] : "auto")->name() << "\n";
  } catch (const cirrus::Error& e) {
    std::cerr << e.what() << "\n";
    return static_cast<int>(e.code());
  }
  return 0;
}
