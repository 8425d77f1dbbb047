// SPDX-License-Identifier: MIT
// The CUDA batch fitter against the CPU on recordings. Needs a device and the recordings.
#include "support/test_data.hpp"
#include "unit/fitter/cuda_fits.hpp"
#include "unit/fitter/recordings.hpp"

namespace driftd {
namespace {

/// ROIs around the places that a file of reference fits lists.
std::vector<std::uint16_t> listed_rois(const std::filesystem::path& csv,
                                       const std::vector<test::Image>& frames, int side) {
  std::vector<std::uint16_t> pixels;
  for (const test::Row& row : test::read_csv(csv)) {
    if (std::stoi(row.at("roi_w")) != side) continue;
    const auto& frame = frames.at(static_cast<std::size_t>(std::stoi(row.at("frame"))));
    const auto roi = test::cut(frame, std::stoi(row.at("roi_x")), std::stoi(row.at("roi_y")), side);
    pixels.insert(pixels.end(), roi.begin(), roi.end());
  }
  return pixels;
}

TEST_CASE("CUDA agrees with the CPU on recordings") {
  if (test::no_device()) return;
  const auto data = test::test_data();
  if (!data) return;
  const std::vector<std::pair<std::string, std::vector<test::Image>>> recordings = {
      {"ref_zstack_fits.csv",
       test::read_tiff(*data / "psfextractor_zstack/zstack_34x512x512_u8.tif")},
      {"ref_stuck_fits.csv", test::read_tiff(*data / "trackpy_stuck/stuck.tif")},
      {"ref_picasso_fits.csv", test::read_raw(*data / "picasso/testdata.raw", 32, 32)}};
  std::size_t compared = 0;
  for (const auto& [csv, frames] : recordings) {
    for (int side = fitter::kMinRoiPx; side <= fitter::kMaxRoiPx; ++side) {
      const auto pixels = listed_rois(*data / csv, frames, side);
      if (pixels.empty()) continue;
      const auto cpu = test::fit_all(pixels, side);
      compared += cpu.size();
      INFO(csv);
      test::check_agreement(cpu, test::fit_all_cuda(pixels, side), side);
    }
  }
  CHECK(compared > 500);
}

}  // namespace
}  // namespace driftd
