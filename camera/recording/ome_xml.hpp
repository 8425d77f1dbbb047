// SPDX-License-Identifier: MIT
// The metadata of an OME-TIFF, which stand as XML in its first page's description. Follows the
// OME-TIFF specification and schema 2016-06 (docs.openmicroscopy.org/ome-model); files by earlier
// schemas say the same in the same words. Pure functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "camera/recording/planes.hpp"

namespace driftd::camera {

/// A TiffData element: planes one after another, from one on, in pages one after another.
struct OmeBlock {
  PlaneIndex first;
  std::int64_t page = 0;
  std::optional<std::int64_t> planes;  ///< nothing: all pages of the file
  std::string uuid;                    ///< of the file; "": the one that the metadata stand in
  std::string file_name;               ///< without a folder; "": not said
};

/// What Pixels says of each plane; nothing, "": it does not say.
struct OmePlaneShape {
  std::optional<std::int64_t> width_px, height_px;
  std::string type;  ///< OME's "uint16"
};

/// A Plane element that says when it was taken.
struct OmePlaneTime {
  PlaneIndex plane;
  double time_s = 0;  ///< DeltaT, since the image's AcquisitionDate
};

/// An Image element, which programs call a series or a position.
struct OmeImage {
  std::string name;
  OmePlaneShape shape;
  PlaneExtent extent;
  std::optional<double> rate_hz;  ///< by the time between frames
  std::vector<OmeBlock> blocks;
  std::vector<OmePlaneTime> times;
};

/// Another axis that goes along with time or z, and faster (ModuloAlongT, ModuloAlongZ).
struct OmeModulo {
  std::string type;        ///< "lifetime"; "": there is none
  std::int64_t count = 1;  ///< of its positions
};

struct OmeMetadata {
  std::string uuid;
  std::string metadata_file;  ///< "": here; else the file that has the metadata
  std::vector<OmeImage> images;
  OmeModulo with_time, with_z;
};

/// Whether a description is, or was, OME-XML.
bool is_ome(std::string_view description);

/// The UUID of the file that has this description; "": it does not say.
std::string uuid_in(std::string_view description);

/// Where the metadata are in a companion file beside this one, what that says.
/// @param settings  file and option names, for the text of errors @throws RecordingError
OmeMetadata read_ome(const StackSettings& settings, std::string_view description);

}  // namespace driftd::camera
