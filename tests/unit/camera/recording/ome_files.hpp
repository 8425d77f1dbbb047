// SPDX-License-Identifier: MIT
// Planes whose pixels name them, and OME-XML about them after the OME-TIFF specification.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace driftd::camera::ome_files {

constexpr int kWidth = 7, kHeight = 5;

struct Plane {
  int z, c, t, series = 0;
  bool operator==(const Plane&) const = default;
};

/// The pixels of a plane name it, and their place.
inline std::vector<std::uint16_t> pixels_of(const Plane& plane) {
  std::vector<std::uint16_t> pixels;
  for (int i = 0; i < kWidth * kHeight; ++i) {
    pixels.push_back(static_cast<std::uint16_t>(20000 * plane.series + 9000 * plane.c +
                                                2000 * plane.z + 50 * plane.t + i));
  }
  return pixels;
}

inline std::vector<std::uint16_t> pixels_of(const std::vector<Plane>& planes) {
  std::vector<std::uint16_t> all;
  for (const Plane& plane : planes) {
    const auto pixels = pixels_of(plane);
    all.insert(all.end(), pixels.begin(), pixels.end());
  }
  return all;
}

struct Extent {
  int z = 1, c = 1, t = 1;
};

/// All planes, in the order of a DimensionOrder such as "XYZCT".
inline std::vector<Plane> planes_in(const std::string& order, Extent size, int series = 0) {
  std::vector<Plane> planes;
  const auto length = [&](char axis) {
    return axis == 'Z' ? size.z : axis == 'C' ? size.c : size.t;
  };
  for (int slow = 0; slow < length(order[4]); ++slow) {
    for (int middle = 0; middle < length(order[3]); ++middle) {
      for (int fast = 0; fast < length(order[2]); ++fast) {
        Plane plane{0, 0, 0, series};
        for (const auto& [axis, index] :
             {std::pair(order[2], fast), std::pair(order[3], middle), std::pair(order[4], slow)}) {
          (axis == 'Z' ? plane.z : axis == 'C' ? plane.c : plane.t) = index;
        }
        planes.push_back(plane);
      }
    }
  }
  return planes;
}

inline std::string attribute(const std::string& name, int value) {
  return " " + name + "=\"" + std::to_string(value) + "\"";
}

inline std::string pixels_element(const std::string& order, Extent size, const std::string& inside,
                                  const std::string& more = "") {
  return "<Pixels ID=\"Pixels:0\" Type=\"uint16\" DimensionOrder=\"" + order + "\"" +
         attribute("SizeX", kWidth) + attribute("SizeY", kHeight) + attribute("SizeZ", size.z) +
         attribute("SizeC", size.c) + attribute("SizeT", size.t) + more + ">" + inside +
         "</Pixels>";
}

inline std::string ome(const std::string& inside, const std::string& uuid = "") {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!-- Warning: this comment is an OME-XML "
         "metadata block -->\n<OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\"" +
         (uuid.empty() ? "" : " UUID=\"" + uuid + "\"") + ">" + inside + "</OME>";
}

inline std::string image(const std::string& name, const std::string& pixels) {
  return "<Image ID=\"Image:0\" Name=\"" + name + "\">" + pixels + "</Image>";
}

/// As Micro-Manager writes it, for each plane.
inline std::string tiff_data(const Plane& plane, int page, const std::string& file,
                             const std::string& uuid) {
  return "<TiffData" + attribute("FirstC", plane.c) + attribute("FirstT", plane.t) +
         attribute("FirstZ", plane.z) + attribute("IFD", page) + attribute("PlaneCount", 1) +
         "><UUID FileName=\"" + file + "\">" + uuid + "</UUID></TiffData>";
}

}  // namespace driftd::camera::ome_files
