// SPDX-License-Identifier: MIT
// A lock as one daemon leaves it to the next, and a state directory of the test's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "daemon/resume/lock_saver.hpp"
#include "support/catch.hpp"

namespace driftd::daemon::test {

/// Two markers that no default describes.
inline SavedLock some_lock() {
  return {
      .time = {.wall_ns = 1'800'000'000'000'000'000, .uptime_ns = 77'000'000'000, .boot_id = "b"},
      .session = "0123456789abcdef",
      .lock_id = 3,
      .lost = false,
      .meaning = {{"camera", "maker model 7"}, {"image", "140 x 110 px at (1000, 500)"}},
      .markers = {{.id = 4,
                   .role = control::MarkerRole::Tracking,
                   .reference = {.place_px = {1030.25, 525.5},
                                 .sigma_px = 1.3,
                                 .amplitude_adu = 800,
                                 .variance_nm2 = 0.02,
                                 .trusted = true}},
                  {.id = 9,
                   .role = control::MarkerRole::Witness,
                   .reference = {.place_px = {1095.75, 540.125},
                                 .sigma_px = 1.4,
                                 .amplitude_adu = 650,
                                 .variance_nm2 = 0.03,
                                 .trusted = false}}},
      .spot_sigma_px = 1.35,
      .roi_px = 13,
      .saturation_adu = 4000,
      .chosen = true,
      .total_nm = {-18.25, 7.5},
      .carried_nm = {100, -50},
      .travelled_nm = {300, 25},
      .set_nm = {-70, 45},
      .stage = SavedStage{.driver = "pi_gcs2",
                          .description = "PI",
                          .position_nm = {{"1", 50012.5}, {"2", 49987.25}}}};
}

/// What `$STATE_DIRECTORY` names while it lives.
struct StateFolder {
  std::filesystem::path path = made();

  StateFolder() { REQUIRE(setenv("STATE_DIRECTORY", path.c_str(), 1) == 0); }
  ~StateFolder() {
    unsetenv("STATE_DIRECTORY");
    std::filesystem::remove_all(path);
  }
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

 private:
  static std::filesystem::path made() {
    std::string name = (std::filesystem::temp_directory_path() / "driftd-state-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return name;
  }
};

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace driftd::daemon::test
