// libFuzzer target: any bytes as a header, parsed, printed, scaled up and down, its unit, beam and pixel size asked
// for. Errors must be cirrus::Error; cards must stay 80 characters. Build with -DCIRRUS_FUZZ=ON and clang, run
// bin/fuzz_header FOLDER.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "fits/header_beam.h"
#include "fits/scale.h"
#include "fits/units.h"

using namespace cirrus::fits;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Header& header) {
  for (const Card& card : header.cards()) require(card.text().size() == Card::kLength);
  // Printed and parsed again, a header is the same.
  const Header again = Header::parse(header.text());
  require(again.size() == header.size());
  for (std::size_t i = 0; i < header.size(); ++i) {
    require(again.cards()[i].text() == header.cards()[i].text());
    header.string_at(i);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> warnings;
  // Raw bytes as they come from a file, and as lines, which a fuzzer can shape more easily.
  for (Header header : {Header::parse(bytes, &warnings), Header::parse(Header::from_lines(bytes).text())}) {
    check(header);
    for (const double s : {4.0, 0.25}) {
      for (const bool drop : {false, true}) {
        Header scaled = header;
        ScaleOptions options;
        options.offset_x = 3.0;
        options.drop_distortion = drop;
        try {
          scale_header(scaled, s, s, options);
        } catch (const cirrus::Error&) {
          continue;
        }
        check(scaled);
      }
    }
    try {
      decide_unit(header);
    } catch (const cirrus::Error&) {
    }
    pixel_scale(header);
    try {
      set_beam(header, header_resolution(header).value_or(Beam{18, 18, 0, ""}));
      change_unit_beam(header, Beam{9, 9, 0, ""});
      check(header);
    } catch (const cirrus::Error&) {
    }
    header.set("OBJECT", std::string(bytes.substr(0, 300)), "set by the fuzzer");
    header.add_history(bytes.substr(0, 300));
    check(header);
  }
  return 0;
}
