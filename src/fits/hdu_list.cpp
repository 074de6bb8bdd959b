// The list of HDUs of a file and its table, in the manner of astropy's fitsinfo; see image.h.
#include <algorithm>
#include <array>

#include "fits/cfitsio_file.h"
#include "fits/image.h"

namespace cirrus::fits {
namespace {

std::string format_name(int bitpix, const Header& header) {
  const bool scaled =
      header.get<double>("BZERO").value_or(0.0) != 0.0 || header.get<double>("BSCALE").value_or(1.0) != 1.0;
  std::string name = "float64";
  switch (bitpix) {
    case 8:
      name = "uint8";
      break;
    case 16:
      name = "int16";
      break;
    case 32:
      name = "int32";
      break;
    case 64:
      name = "int64";
      break;
    case -32:
      return "float32";
    default:
      return name;
  }
  const bool is_unsigned = header.get<double>("BSCALE").value_or(1.0) == 1.0;
  const double zero = header.get<double>("BZERO").value_or(0.0);
  if (bitpix == 16 && is_unsigned && zero == 32768.0) return name + " (rescales to uint16)";
  if (bitpix == 32 && is_unsigned && zero == 2147483648.0) return name + " (rescales to uint32)";
  return scaled ? name + " (rescales to float32)" : name;
}

std::string checksum_state(fitsfile* file, const Header& header) {
  if (!header.has("CHECKSUM") && !header.has("DATASUM")) return "absent";
  int data = 0, hdu = 0, status = 0;
  fits_verify_chksum(file, &data, &hdu, &status);
  fits_clear_errmsg();
  return status != 0 || data < 0 || hdu < 0 ? "wrong" : "ok";
}

}  // namespace

std::vector<HduInfo> list_hdus(const std::string& name) {
  const CfitsioFile file = CfitsioFile::open(name);
  int count = 0, status = 0;
  fits_get_num_hdus(file, &count, &status);
  std::vector<HduInfo> list;
  for (int k = 0; k < count; ++k) {
    int type = 0, bitpix = 0, naxis = 0;
    status = 0;
    if (fits_movabs_hdu(file, k + 1, &type, &status) != 0) break;
    const bool compressed = fits_is_compressed_image(file, &status) != 0;
    const Header header = read_header(file, nullptr);
    HduInfo info;
    info.number = k;
    info.name = header.get<std::string>("EXTNAME").value_or(k == 0 ? "PRIMARY" : "");
    info.version = header.get<int>("EXTVER").value_or(1);
    info.cards = static_cast<int>(header.size());
    info.healpix = header.get<std::string>("PIXTYPE").value_or("") == "HEALPIX";
    if (type == IMAGE_HDU || compressed) {
      info.type = compressed ? "CompImageHDU" : k == 0 ? "PrimaryHDU" : "ImageHDU";
      fits_get_img_dim(file, &naxis, &status);
      fits_get_img_type(file, &bitpix, &status);
      std::vector<LONGLONG> axes(static_cast<std::size_t>(std::max(naxis, 1)));
      fits_get_img_sizell(file, naxis, axes.data(), &status);
      info.axes.assign(axes.begin(), axes.begin() + std::max(naxis, 0));
      if (naxis > 0) info.format = format_name(bitpix, header);
      info.has_image = std::count_if(info.axes.begin(), info.axes.end(), [](std::int64_t n) { return n > 1; }) >= 2;
    } else {
      LONGLONG rows = 0;
      int columns = 0;
      fits_get_num_rowsll(file, &rows, &status);
      fits_get_num_cols(file, &columns, &status);
      info.type = type == ASCII_TBL ? "TableHDU" : "BinTableHDU";
      info.axes = {rows, columns};
    }
    info.checksum = checksum_state(file, compressed ? Header::from_lines("CHECKSUM") : header);
    list.push_back(std::move(info));
  }
  return list;
}

std::string hdu_table(const std::vector<HduInfo>& hdus) {
  std::vector<std::array<std::string, 7>> rows = {{"No.", "Name", "Ver", "Type", "Cards", "Dimensions", "Format"}};
  for (const HduInfo& hdu : hdus) {
    std::string axes;
    for (const std::int64_t n : hdu.axes) axes += (axes.empty() ? "" : ", ") + std::to_string(n);
    if (hdu.type == "BinTableHDU" || hdu.type == "TableHDU") {
      axes = std::to_string(hdu.axes[0]) + "R x " + std::to_string(hdu.axes[1]) + "C";
    } else {
      axes = "(" + axes + ")";
    }
    rows.push_back({std::to_string(hdu.number), hdu.name, std::to_string(hdu.version), hdu.type,
                    std::to_string(hdu.cards), axes, hdu.healpix ? "HEALPix" : hdu.format});
  }
  std::array<std::size_t, 7> width{};
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) width[k] = std::max(width[k], row[k].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) line += row[k] + std::string(width[k] - row[k].size() + 3, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace cirrus::fits
