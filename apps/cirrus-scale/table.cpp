// The table of cirrus-scale's verbs.
#include "apps/cirrus-scale/table.h"

namespace cirrus::scale_app {

Program table() {
  return {"cirrus-scale",
          "examine machines that Cirrus runs on",
          {
              {"doctor", "test the devices of this machine and write a report", nullptr},
              {"plan", "memory, traffic and time of a training run before it starts", nullptr},
          },
          ""};
}

}  // namespace cirrus::scale_app
