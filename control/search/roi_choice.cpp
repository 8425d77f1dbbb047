// SPDX-License-Identifier: MIT
#include "control/search/roi_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "base/median.hpp"
#include "fitter/fitter.hpp"

namespace driftd::control {
namespace {

/// What a lone spot gets: the background shows beyond four sigma.
constexpr double kWideSigmas = 10;
/// Below, background and width are hardly told apart.
constexpr double kNarrowSigmas = 5;
constexpr int kNarrowestPx = 5;
constexpr int kWidestPx = 63;
static_assert(kWidestPx <= fitter::kMaxRoiPx);
/// Share of the spots that the narrowest ROI would leave alone and that a wider one has to keep.
constexpr double kKept = 0.9;

/// What surrounds a spot.
struct Room {
  double neighbour_px = std::numeric_limits<double>::infinity();
  double border_px = 0;  ///< from the centre
};

Room room_of(const MeasuredSpot& spot, std::span<const MeasuredSpot> spots,
             std::span<const Candidate> others, ImageSize image) {
  Room room;
  const auto look = [&](double x_px, double y_px, double height_adu) {
    const double distance_px = std::hypot(x_px - spot.x_px, y_px - spot.y_px);
    if (distance_px < std::max(1.0, 0.5 * spot.sigma_px)) return;  // itself
    if (height_adu < kDisturbingHeight * spot.height_adu) return;
    room.neighbour_px = std::min(room.neighbour_px, distance_px);
  };
  for (const MeasuredSpot& s : spots) look(s.x_px, s.y_px, s.height_adu);
  for (const Candidate& c : others) look(c.x_px, c.y_px, c.height_adu);
  room.border_px = std::min(std::min(spot.x_px, image.width_px - 1 - spot.x_px),
                            std::min(spot.y_px, image.height_px - 1 - spot.y_px));
  return room;
}

/// How many spots a ROI of a side would serve, and what takes the others away.
struct Service {
  std::size_t served = 0, by_neighbour = 0, by_border = 0;
};

Service service_of(int roi_px, std::span<const Room> rooms, const DetectionSettings& settings) {
  Service service;
  const double apart_px = settings.min_distance_px > 0 ? settings.min_distance_px : roi_px;
  for (const Room& r : rooms) {
    const bool crowded = r.neighbour_px < apart_px;
    const bool cut = r.border_px < 0.5 * (roi_px - 1) + settings.border_px;
    if (crowded) ++service.by_neighbour;
    if (cut) ++service.by_border;
    if (!crowded && !cut) ++service.served;
  }
  return service;
}

double median_neighbour(std::span<const Room> rooms) {
  std::vector<double> distances;
  for (const Room& r : rooms)
    if (std::isfinite(r.neighbour_px)) distances.push_back(r.neighbour_px);
  return median(std::move(distances));
}

int odd_near(double side_px) {
  return 2 * static_cast<int>(std::lround((side_px - 1) / 2)) + 1;
}

std::string side(int roi_px) {
  return "ROI of " + std::to_string(roi_px) + " px";
}

}  // namespace

RoiChoice choose_roi(double sigma_px, std::span<const MeasuredSpot> spots,
                     std::span<const Candidate> others, ImageSize image,
                     const DetectionSettings& settings) {
  std::vector<Room> rooms;
  for (const MeasuredSpot& s : spots) rooms.push_back(room_of(s, spots, others, image));
  RoiChoice choice;
  choice.neighbour_px = median_neighbour(rooms);
  if (settings.roi_px > 0) {
    choice.roi_px = settings.roi_px;
    choice.reason = side(choice.roi_px) + " as given";
    return choice;
  }
  const int room_px = std::min(image.width_px, image.height_px) -
                      2 * static_cast<int>(std::ceil(settings.border_px));
  const int wide_px = std::max(kNarrowestPx, std::min(kWidestPx, odd_near(kWideSigmas * sigma_px)));
  const int narrow_px =
      std::min(wide_px, std::max(kNarrowestPx, odd_near(kNarrowSigmas * sigma_px)));
  if (room_px < narrow_px) {
    choice.reason = "no ROI: the image of " + std::to_string(image.width_px) + " x " +
                    std::to_string(image.height_px) + " px has no room for " +
                    std::to_string(narrow_px) + " px and the border";
    return choice;
  }
  const std::size_t most = service_of(narrow_px, rooms, settings).served;
  const std::size_t enough =
      std::min(static_cast<std::size_t>(std::max(1, settings.max_count)),
               static_cast<std::size_t>(std::ceil(kKept * static_cast<double>(most))));
  int roi_px = wide_px;
  Service lost;
  while (roi_px > narrow_px &&
         (roi_px > room_px || service_of(roi_px, rooms, settings).served < enough)) {
    lost = service_of(roi_px, rooms, settings);
    roi_px -= 2;
  }
  choice.roi_px = roi_px;
  choice.reason = side(roi_px);
  if (most == 0)
    choice.reason += ", though neighbours or the border leave no spot alone in any";
  else if (roi_px == wide_px)
    choice.reason += wide_px == kWidestPx ? ", the widest there is" : ", ten sigma";
  else if (roi_px + 2 > room_px)
    choice.reason += ", all that the image's size allows";
  else
    choice.reason += ": one of " + std::to_string(roi_px + 2) + " px would serve " +
                     std::to_string(lost.served) + " of " + counted(spots.size(), "spot") +
                     " (nearer neighbours: " + std::to_string(lost.by_neighbour) +
                     "; too near the border: " + std::to_string(lost.by_border) + ")";
  return choice;
}

}  // namespace driftd::control
