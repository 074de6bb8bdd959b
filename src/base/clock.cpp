// Time strings; see clock.h.
#include "base/clock.h"

#include <chrono>
#include <cstdlib>
#include <ctime>

#include "base/errors.h"

namespace cirrus {
namespace {

std::string iso_utc(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

}  // namespace

std::string utc_now() { return iso_utc(std::time(nullptr)) + "Z"; }

std::string file_date() {
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
  if (epoch == nullptr || *epoch == '\0') return iso_utc(std::time(nullptr));
  char* end = nullptr;
  const long long seconds = std::strtoll(epoch, &end, 10);
  constexpr long long kYear10000 = 253402300800;
  if (*end != '\0' || seconds < 0 || seconds >= kYear10000) {
    throw Error(ExitCode::config, "environment variable SOURCE_DATE_EPOCH = " + std::string(epoch) + " is not a time",
                "set it to whole seconds since 1970");
  }
  return iso_utc(static_cast<std::time_t>(seconds));
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace cirrus
