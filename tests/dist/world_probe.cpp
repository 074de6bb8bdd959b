// world_probe [single]: joins the world and prints "rank size launcher"; with `single`, refuses more than one process.
#include <iostream>
#include <string>

#include "base/errors.h"
#include "dist/world.h"

int main(int argc, char** argv) {
  try {
    const cirrus::dist::World world = cirrus::dist::join_world();
    if (argc > 1 && std::string(argv[1]) == "single") cirrus::dist::require_single(world, "Probing");
    std::cout << world.rank << " " << world.size << " " << world.launcher << "\n";
  } catch (const cirrus::Error& e) {
    std::cerr << e.what() << "\n";
    return static_cast<int>(e.code());
  }
  cirrus::dist::leave_world();
  return 0;
}
