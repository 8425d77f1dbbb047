// SPDX-License-Identifier: MIT
// The messages of the stream (docs/internals/web.md) made from the daemon's. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/web/history.hpp"

namespace driftd::web {

/// To 0.1 pm, as the daemon tells places; null where it is not finite.
nlohmann::json number_or_null(double value);

/// Length, header, payload.
std::string packed(const nlohmann::json& header, std::string_view payload = {});

/// From the text of a `position` and the newest `correction`, with what the newest `axial` adds to
/// it (null: none is known). Nothing where it is not one.
std::optional<Sample> sample_of(std::string_view position, const nlohmann::json& correction);

/// Frames that come faster than the page draws: one each 50 ms.
class SampleSieve {
 public:
  static constexpr double kEveryS = 0.05;

  /// Whether this one is shown.
  bool passes(double t_s);

 private:
  std::optional<double> last_s_;
};

nlohmann::json samples_message(const std::vector<Sample>& samples, bool past);

/// `photons` beside each marker of a `markers` message.
nlohmann::json markers_message(const nlohmann::json& markers, double gain_e_per_adu);

/// Pixels of the frame.
struct Region {
  int x0 = 0, y0 = 0, width = 0, height = 0;

  bool operator==(const Region&) const = default;
};

/// What a tab wants; what it does not mention stays.
struct Wants {
  bool images = false, spectrum = false;
  std::optional<Region> region;
};
/// False: that is not what a tab says.
bool take_wants(std::string_view text, Wants& wants);

/// A picture of a snapshot: its frame as the daemon describes it, and its pixels.
struct Snapshot {
  nlohmann::json frame;
  std::string pixels;  ///< u16 little-endian, row by row
  int saturation = 0;  ///< from this value on a pixel is; 0: the format's largest value
};
inline constexpr int kMostSide = 512;
/// What a tab is shown: so little binned as its link allows.
struct View {
  std::optional<Region> region;                                     ///< nothing: the whole frame
  std::size_t most_bytes = std::size_t{2} * kMostSide * kMostSide;  ///< of pixels

  bool operator==(const View&) const = default;
};
/// What lies outside the frame is left out.
/// @returns nothing where the snapshot is none of a daemon's
std::optional<std::string> image_message(const Snapshot& snapshot, const View& view);

}  // namespace driftd::web
