// SPDX-License-Identifier: MIT
// What is chosen on real recordings, against the widths of the reference fits, and how many of
// their spots are then found.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "control/search/spot_size.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "support/test_data.hpp"
#include "unit/control/detection_images.hpp"

namespace driftd::control {
namespace {

using test::Picture;

struct ReferenceSpot {
  Vec2 place_px;
  double sigma_px;
};

/// Fits of one frame that are marked ok, by the header's names.
std::vector<ReferenceSpot> reference_spots(const std::filesystem::path& file, int frame) {
  std::ifstream in(file);
  std::string line;
  std::vector<std::string> names;
  const auto fields_of = [](const std::string& text) {
    std::vector<std::string> fields;
    std::istringstream rest(text);
    std::string field;
    while (std::getline(rest, field, ',')) fields.push_back(field);
    return fields;
  };
  std::getline(in, line);
  names = fields_of(line);
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  const std::size_t width = std::min(column("sigma"), column("sigma_x"));
  std::vector<ReferenceSpot> spots;
  while (std::getline(in, line)) {
    const auto fields = fields_of(line);
    if (std::stoi(fields[column("frame")]) != frame || fields[column("ok")] != "1") continue;
    spots.push_back({{std::stod(fields[column("x")]), std::stod(fields[column("y")])},
                     std::stod(fields[width])});
  }
  return spots;
}

double median_width(std::vector<ReferenceSpot> spots) {
  REQUIRE_FALSE(spots.empty());
  const auto middle = spots.begin() + static_cast<std::ptrdiff_t>(spots.size() / 2);
  std::nth_element(spots.begin(), middle, spots.end(),
                   [](const auto& a, const auto& b) { return a.sigma_px < b.sigma_px; });
  return middle->sigma_px;
}

DetectionSettings open_settings() {
  DetectionSettings settings = driftd::test::default_detection_settings();
  settings.expected_sigma_px = 0;
  settings.roi_px = 0;
  settings.saturation_adu = 0;
  settings.max_count = 64;
  return settings;
}

/// @param agree  of the widths; the reference's ROI is another, and defocused beads are no
/// Gaussians
/// @param found_share  of the reference's spots that are markers with what was chosen
void check(const Picture& picture, const std::vector<ReferenceSpot>& reference, double agree,
           double found_share) {
  const SpotSize size =
      choose_spot_size(picture.pixels, picture.width_px, picture.height_px, open_settings());
  INFO(size.reason << "; reference: " << median_width(reference) << " px");
  REQUIRE(size.chosen());
  CHECK(size.sigma_px == Approx(median_width(reference)).epsilon(agree));
  const auto markers = test::detect(picture, settings_for(size, open_settings())).markers;
  const auto found = std::count_if(reference.begin(), reference.end(), [&](const auto& spot) {
    return std::any_of(markers.begin(), markers.end(), [&](const Marker& m) {
      return std::hypot(m.x_px - spot.place_px.x, m.y_px - spot.place_px.y) < 0.5;
    });
  });
  INFO(found << " of " << reference.size() << " found");
  CHECK(static_cast<double>(found) >= found_share * static_cast<double>(reference.size()));
}

TEST_CASE("beads near focus: the width of the reference fits") {
  const auto folder = driftd::test::test_data();
  if (!folder) return;
  for (const int page : {16, 17}) {
    INFO("slice " << page);
    check(test::read_page(*folder / "psfextractor_zstack/zstack_34x512x512_u8.tif", page),
          reference_spots(*folder / "ref_zstack_fits.csv", page), 0.03, 0.95);
  }
}

TEST_CASE("weak particles: the width of the reference fits") {
  const auto folder = driftd::test::test_data();
  if (!folder) return;
  // At an SNR of 11 half of them are below the limit of 10.
  for (int page = 0; page < 5; ++page) {
    INFO("frame " << page);
    check(test::read_page(*folder / "trackpy_stuck/stuck.tif", page),
          reference_spots(*folder / "ref_stuck_fits.csv", page), 0.05, 0.4);
  }
}

TEST_CASE("one or two molecules in 32x32 pixels: the width of the reference fits") {
  const auto folder = driftd::test::test_data();
  if (!folder) return;
  std::ifstream in(*folder / "picasso/testdata.raw", std::ios::binary);
  std::vector<char> bytes(2 * 32 * 32);
  for (const int frame : {13, 377}) {
    INFO("frame " << frame);
    in.seekg(static_cast<std::streamoff>(bytes.size()) * frame);
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(in);
    Picture picture{32, 32, {}};
    for (std::size_t i = 0; i < bytes.size(); i += 2)
      picture.pixels.push_back(static_cast<std::uint16_t>(
          static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1]) << 8));
    check(picture, reference_spots(*folder / "ref_picasso_fits.csv", frame), 0.05, 0);
  }
}

}  // namespace
}  // namespace driftd::control
