// SPDX-License-Identifier: MIT
// The markers on the sample: where they sit, how bright they are at a time, and what goes wrong
// with them (blinking, bleaching, coming off, an intruder). Owned and stepped by the Simulation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/random.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

/// A point of light on the sensor, in full-sensor pixels.
struct Spot {
  double x_px = 0;
  double y_px = 0;
  double electrons = 0;  ///< expected, in the camera model's `exposure_us`
  double z_nm = 0;       ///< height, where the optics' shape depends on it
  double sigma_px = 0;   ///< of a round Gaussian of its own; 0: the optics' shape
};

/// What the light of the markers depends on besides themselves.
struct SampleState {
  Vec2 place_nm;
  double z_nm = 0;
  bool hidden = false;  ///< the markers are dark; an intruder is not
};

class MarkerField {
 public:
  /// @throws ScenarioError when the markers do not fit with their minimum distance
  MarkerField(const Scenario& scenario, std::uint64_t seed);
  /// Advances blinking and wandering by one tick to `time_s`.
  void step(double time_s);
  /// Marker `index` comes off now and walks at random. Indices are 0-based; false: no such marker.
  bool detach(int index);
  /// Marker `index` moves by `by_nm`, and `rise_nm` in z, from where it is, steadily over
  /// `seconds`. False: no such marker.
  bool walk(int index, Vec2 by_nm, double rise_nm, double seconds);
  /// From now on markers are `factor` times as bright as the scenario has them.
  void light(double factor) noexcept { light_ = factor; }
  /// A bright particle moves along x through marker `index`, which it meets after half of
  /// `seconds`. False: no such marker.
  bool pass_intruder(int index, double time_s, double seconds);
  /// All light there is at the last step's time, for a sample displaced so at the sensor's centre,
  /// about which the field turns and grows.
  void spots(const SampleState& sample, std::vector<Spot>& out) const;
  /// Height of a marker while the sample is at z = 0.
  double height_nm(int index) const { return markers_.at(static_cast<std::size_t>(index)).z_nm; }
  std::size_t size() const noexcept { return markers_.size(); }

 private:
  struct Marker {
    Vec2 place_px;
    Vec2 wander_nm;
    double electrons = 0;
    double bleach_tau_s = 0;
    double z_nm = 0;  ///< with tilt and what it walked
    bool blinks = false;
    bool dark = false;
    bool detached = false;
    Vec2 walk_nm_per_s;
    double rise_nm_per_s = 0;
    double walks_until_s = 0;
    double next_change_s = 0;
  };
  struct Intruder {
    Vec2 meeting_px;
    double meeting_s = 0;
    double until_s = 0;
  };
  void place_at_random(const CameraModel& camera);
  void raise(std::uint64_t seed);
  Vec2 turned(Vec2 place_px) const noexcept;

  MarkerModel model_;
  FieldMotion field_;
  Vec2 centre_px_;
  double pixel_size_nm_;
  Random random_;
  std::vector<Marker> markers_;
  std::optional<Intruder> intruder_;
  double time_s_ = 0;
  double light_ = 1;
};

}  // namespace driftd::simulator
