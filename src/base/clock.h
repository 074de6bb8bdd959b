// Time as Cirrus writes it: UTC, ISO 8601. SOURCE_DATE_EPOCH fixes the time that goes into files.
#pragma once

#include <string>

namespace cirrus {

/// "2025-03-04T05:06:07Z" for now: messages and logs.
std::string utc_now();

/// "2025-03-04T05:06:07" for the DATE card and similar: SOURCE_DATE_EPOCH (seconds since 1970) if set, else now.
/// Throws Error(config) if SOURCE_DATE_EPOCH is not a whole number.
std::string file_date();

/// Seconds of a steady clock.
double steady_seconds();

}  // namespace cirrus
