// SPDX-License-Identifier: MIT
// The description of a TIFF recording of four pages of 4 x 2 pixels: OME-XML, or ImageJ's lines.
#include "camera/recording/ome_xml.hpp"

#include <tiffio.h>

#include <array>

#include "fuzz/recordings.hpp"

namespace driftd::fuzz {
namespace {

void write_page(TIFF* tiff, const char* description) {
  std::array<std::uint8_t, 8> pixels{1, 2, 3, 4, 5, 6, 7, 8};
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 4);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 2);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 2);
  if (description != nullptr) TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, description);
  TIFFWriteRawStrip(tiff, 0, pixels.data(), static_cast<tmsize_t>(pixels.size()));
  TIFFWriteDirectory(tiff);
}

}  // namespace

void ome_xml(Bytes bytes) {
  static const FolderFile file("f.ome.tif");
  const std::string description = text_of(bytes);
  camera::StackSettings settings;
  settings.path = file.path();
  try {
    const auto metadata = camera::read_ome(settings, description);
    for (const camera::OmeImage& image : metadata.images) {
      const camera::PlaneExtent& extent = image.extent;
      require(extent.z >= 1 && extent.c >= 1 && extent.t >= 1 &&
                  extent.z * extent.c * extent.t <= camera::kMostPlanes,
              "planes can be counted");
    }
  } catch (const camera::RecordingError& error) {
    require(!error.problem.empty(), "a refusal says something");
  }
  TIFF* tiff = TIFFOpen(file.path().c_str(), description.size() % 2 == 0 ? "w" : "wb");
  require(tiff != nullptr, "a file can be written");
  const std::size_t pages = description.size() % 3 == 0 ? 1 : 4;
  write_page(tiff, description.c_str());
  for (std::size_t page = 1; page < pages; ++page) write_page(tiff, nullptr);
  TIFFClose(tiff);
  check_recording(file.path(), camera::StackFormat::Tiff);
}

}  // namespace driftd::fuzz
