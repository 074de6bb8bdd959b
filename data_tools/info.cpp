// cirrus-data info: what a FITS file holds and how Cirrus understands it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "data_tools/map_file.h"
#include "data_tools/verbs.h"
#include "fits/header_beam.h"
#include "fits/units.h"
#include "fits/wcs_check.h"
#include "sky/angle.h"

namespace cirrus::data_tools {
namespace {

using Json = nlohmann::ordered_json;

struct Statistics {
  std::size_t values = 0;
  double min = NAN, max = NAN, mean = NAN, std = NAN, median = NAN, mad_sigma = NAN, low = NAN, high = NAN;
};

/// Middle of the sorted values, or the mean of the two in the middle.
double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Statistics statistics_of(const std::vector<double>& pixels) {
  std::vector<double> values;
  std::copy_if(pixels.begin(), pixels.end(), std::back_inserter(values), [](double v) { return std::isfinite(v); });
  Statistics s;
  s.values = values.size();
  if (values.empty()) return s;
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  s.mean = sum / static_cast<double>(values.size());
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  s.std = std::sqrt(squares / static_cast<double>(values.size()));
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  s.min = *least;
  s.max = *most;
  s.median = median_of(values);
  for (double& v : values) v = std::abs(v - s.median);
  s.mad_sigma = 1.4826 * median_of(values);
  return s;
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// What one image means, for people (lines) and for programs (json).
class Description {
public:
  Description(const std::string& file, const fits::Image& image) {
    json["hdu"] = image.hdu_number;
    json["name"] = image.hdu_name;
    json["width"] = image.width;
    json["height"] = image.height;
    json["plane"] = image.plane;
    json["planes"] = image.planes;
    json["bitpix"] = image.bitpix;
    line(
        "Image",
        "HDU " + std::to_string(image.hdu_number) + ", " + std::to_string(image.width) + " x " +
            std::to_string(image.height) + " pixels" +
            (image.planes > 1 ? ", plane " + std::to_string(image.plane) + " of " + std::to_string(image.planes) : ""));
    coordinates(image);
    units(file, image);
    values(image);
  }

  Json json;
  std::string lines;

private:
  void line(const std::string& name, const std::string& text) {
    lines += (lines.empty() ? "" : "\n") + name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') + text;
  }

  void coordinates(const fits::Image& image) {
    const double x = 0.5 * (static_cast<double>(image.width) + 1), y = 0.5 * (static_cast<double>(image.height) + 1);
    const fits::PixelPoint center{x, y};
    const fits::SkyPositions sky = fits::pixel_to_sky(image.header, {&center, 1}, ' ', image.axis_x, image.axis_y);
    const auto type = [&](int axis) {
      return image.header.get<std::string>("CTYPE" + std::to_string(axis)).value_or("");
    };
    json["wcs"] = {{"usable", sky.usable}, {"ctype", {type(image.axis_x), type(image.axis_y)}}};
    if (sky.usable && !sky.points.empty() && sky.points[0].valid) {
      json["wcs"]["center_deg"] = {sky.points[0].lon, sky.points[0].lat};
      line("WCS", type(image.axis_x) + ", " + type(image.axis_y) + "; centre at " + number(sky.points[0].lon) + ", " +
                      number(sky.points[0].lat) + " deg");
    } else {
      const std::string reason = sky.usable ? "the centre has no sky position" : sky.reason;
      json["wcs"]["reason"] = reason;
      line("WCS", "not usable: " + reason);
    }
    json["pixel_arcsec"] = nullptr;
    const auto scale = fits::pixel_scale(image.header, image.axis_x, image.axis_y);
    if (!scale) return;
    json["pixel_arcsec"] = scale->arcsec;
    const bool square = scale->anisotropy < 1.001;
    line("Pixel",
         sky::angle_text(scale->arcsec) +
             (square ? "" : " (" + sky::angle_text(scale->x_arcsec) + " x " + sky::angle_text(scale->y_arcsec) + ")"));
    line("Field", sky::angle_text(scale->x_arcsec * static_cast<double>(image.width)) + " x " +
                      sky::angle_text(scale->y_arcsec * static_cast<double>(image.height)));
  }

  void units(const std::string& file, const fits::Image& image) {
    json["beam"] = nullptr;
    try {
      if (const auto beam = fits::header_resolution(image.header)) {
        json["beam"] = {{"major_arcsec", beam->major_arcsec},
                        {"minor_arcsec", beam->minor_arcsec},
                        {"position_angle_deg", beam->position_angle_deg},
                        {"source", beam->source}};
        line("Beam", sky::angle_text(beam->major_arcsec) + " x " + sky::angle_text(beam->minor_arcsec) + " (" +
                         beam->source + ")");
      } else {
        line("Beam", "not in the header");
      }
    } catch (const Error& error) {  // as with a logarithmic unit below
      line("Beam", error.what());
    }
    json["unit"] = image.header.get<std::string>("BUNIT").value_or("");
    try {
      const fits::UnitDecision decision = fits::decide_unit(image.header);
      json["unit_class"] = fits::name_of(decision.unit_class);
      line("Unit", decision.reason);
      for (const std::string& warning : decision.warnings) log::warning(file + ": " + warning);
    } catch (const Error& error) {  // a logarithmic unit: worth saying, no reason to stop here
      json["unit_class"] = "logarithmic";
      line("Unit", error.what());
    }
  }

  void values(const fits::Image& image) {
    const Statistics s = statistics_of(image.pixels);
    const double missing =
        1 - static_cast<double>(s.values) / static_cast<double>(std::max<std::size_t>(image.pixels.size(), 1));
    json["nan_share"] = missing;
    json["statistics"] = {{"values", s.values},
                          {"min", finite_or_null(s.min)},
                          {"max", finite_or_null(s.max)},
                          {"mean", finite_or_null(s.mean)},
                          {"std", finite_or_null(s.std)},
                          {"median", finite_or_null(s.median)},
                          {"mad_sigma", finite_or_null(s.mad_sigma)}};
    line("NaN", number(100 * missing) + " %");
    if (s.values == 0) return line("Values", "none");
    line("Values", number(s.min) + " to " + number(s.max) + ", mean " + number(s.mean) + ", std " + number(s.std));
    line("Robust", "median " + number(s.median) + ", 1.4826 MAD " + number(s.mad_sigma));
  }
};

Json hdu_json(const fits::HduInfo& hdu) {
  return {{"number", hdu.number}, {"name", hdu.name},       {"version", hdu.version},
          {"type", hdu.type},     {"cards", hdu.cards},     {"axes", hdu.axes},
          {"format", hdu.format}, {"healpix", hdu.healpix}, {"checksum", hdu.checksum}};
}

}  // namespace

int info(const Arguments& arguments) {
  std::vector<std::string> inputs;
  MapChoice choice;
  RunOptions run;
  Options options("cirrus-data info", "Show what a FITS file holds and how Cirrus understands it.");
  options.positionals("FILE", inputs, "FITS files, or @list.txt", 1);
  add_map_choice(options, choice);
  add_run_options(options, run);
  if (!options.parse(arguments)) return 0;

  Json files = Json::array();
  for (const std::string& name : inputs) {
    if (run.dry_run) {
      log::print("would read " + name);
      continue;
    }
    const std::vector<fits::HduInfo> hdus = fits::list_hdus(name);
    log::print((&name == &inputs.front() ? "" : "\n") + std::string("Filename: ") + name + "\n" +
               fits::hdu_table(hdus));
    Json file = {{"file", name}, {"hdus", Json::array()}, {"image", nullptr}};
    std::string checksums;
    for (const fits::HduInfo& hdu : hdus) {
      file["hdus"].push_back(hdu_json(hdu));
      checksums += (checksums.empty() ? "" : ", ") + hdu.checksum;
      if (hdu.checksum == "wrong") log::warning(name + ": HDU " + std::to_string(hdu.number) + " has a wrong checksum");
    }
    const bool any_image = std::any_of(hdus.begin(), hdus.end(), [](const auto& hdu) { return hdu.has_image; });
    if (any_image || !choice.hdu.empty()) {
      MapChoice shown = choice;
      // A whole cube is no map, but its first plane tells what is asked here.
      if (!shown.plane && fits::count_planes(name, shown.hdu) > 1) shown.plane = 1;
      const Description description(name, read_map(name, shown));
      file["image"] = description.json;
      log::print(description.lines);
    } else {
      const bool healpix = std::any_of(hdus.begin(), hdus.end(), [](const auto& hdu) { return hdu.healpix; });
      log::print(healpix ? "A HEALPix map: project it to a flat map before Cirrus can use it." : "No 2-D image.");
    }
    log::print("Checksum    " + checksums);
    files.push_back(file);
  }
  if (run.json) log::print_json(Json{{"files", files}, {"warnings", log::warnings()}}.dump(2));
  return 0;
}

}  // namespace cirrus::data_tools
