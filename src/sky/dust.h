// Seeded synthetic dust skies: the training sky and the demo maps. Families of log-intensity fields, then
// exponentiation, cosmic infrared background, the telescope's beam, compact sources, zero level and amplitude. After
// Miville-Deschenes+ 2007 (lognormal), Robitaille+ 2020 (cascade), Arzoumanian+ 2011 (Plummer filaments).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "base/random.h"

namespace cirrus::sky {

/// Kinds of log-intensity field.
enum class Family {
  lognormal,  ///< exponentiated Gaussian field of power-law spectrum
  cascade,    ///< multiplicative random cascade: octaves whose variance follows the coarser ones
  filaments,  ///< Plummer filaments with cores, and a network of thin ones, on a lognormal background
  advected,   ///< passive scalar stirred by random solenoidal flows: striations and sheets
  warped,     ///< domain-warped ridged and smooth fields: sheets and shock fronts
  mixed,      ///< product of two of the families above
};

/// "lognormal", ... Family from its name throws Error 64.
std::string name_of(Family family);
Family family_of(const std::string& name);

/// What a synthetic map is made of. The rest (where things lie, how many filaments, how far a flow carries) comes from
/// the seed.
struct DustSpec {
  Family family = Family::lognormal;
  double beta = 2.9;         ///< P(k) ~ k^-beta, positive; lognormal and filaments keep it to 0.2, the others loosely
  double sigma = 0.6;        ///< rms of ln I over the map, before background, beam, sources
  double beam_pixels = 2.3;  ///< FWHM of the Gaussian beam of the truth, in its pixels; 0: none
  std::int64_t sources = 0;  ///< compact sources, dN/dS ~ S^-2.5, seen through the beam
  double background_cib =
      0;  ///< rms of the cosmic infrared background, P(k) ~ k^-1, over the robust sigma of the dust; mean 8.7 rms
  double zero_level = 0;  ///< offset added, in units of the map's median: below -1 the median is negative
  double noise = 0;       ///< white noise of the truth's own pixels, over the map's robust sigma (1.4826 MAD)
  double amplitude = 1;   ///< median of the map before the zero level is added, in its unit
};

/// A spec with the parameters of a family drawn: beta, sigma, sources in a quarter of maps, zero level 0 in half,
/// amplitude log-uniform over four decades. Beam stays at 2.3 pixels and noise at 0, for the caller to vary.
DustSpec draw_spec(Family family, Stream& stream);
/// The mixture for training: lognormal 25 %, cascade 20 %, advected 20 %, warped 15 %, filaments 20 %.
DustSpec draw_spec(Stream& stream);

/// The map [height, width], float32, CPU: a pure function of (spec, seed, index, height, width) on one kind of machine,
/// whatever the number of threads. Throws Error 64 if a size is below 8 or a parameter is out of range.
at::Tensor make_dust(const DustSpec& spec, std::uint64_t seed, std::uint64_t index, std::int64_t height,
                     std::int64_t width);

}  // namespace cirrus::sky
