// SPDX-License-Identifier: MIT
// The calibration of z: takes the stage of z to the places of a sweep, one after another, and
// records what frames show there once it has settled. As StageRun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "control/axial/calibration/sweep_record.hpp"
#include "daemon/loop/stage_run.hpp"

namespace driftd::daemon {

struct SweepRunSettings {
  double stage_gain = 1;       ///< nm of the stage for 1 nm of the sample
  bool by_spot = false;        ///< a reflected spot is what counts, else the markers
  int bad_frames_to_end = 10;  ///< in a row
};

class SweepRun final : public StageRun {
 public:
  /// @param markers  that are measured; more are left out
  SweepRun(control::SweepPlan plan, std::size_t markers, const SweepRunSettings& settings);

  // Tracking loop.
  void look(const FrameSight& sight) noexcept override;
  void left_at(std::int64_t sent_ns) noexcept override;

  // Anyone who has it.
  const control::SweepRecord& record() const noexcept { return record_; }
  /// How many places were measured, or passed.
  std::size_t places_done() const noexcept { return place_; }

 private:
  std::optional<control::Vec2> next_nm(std::int64_t now_ns) noexcept override;
  bool told(std::int64_t now_ns, control::Vec2 total_nm) noexcept override;
  void untold(std::int64_t sent_ns) noexcept override;
  bool is_good(control::LockEvent verdict) const noexcept override;
  std::optional<CalibrationEnd> what_ends_it(const control::FrameFacts& facts) noexcept override;
  double share_done() const noexcept override;

  bool sees(const FrameSight& sight) const noexcept;
  void go_on() noexcept;
  void look_at_start(const FrameSight& sight) noexcept;
  void record(std::size_t place, const FrameSight& sight) noexcept;
  double wanted_stage_nm() const noexcept;

  SweepRunSettings settings_;
  control::SweepRecord record_;
  std::int64_t settle_ns_;
  std::size_t place_ = 0;                    ///< that the stage is at, or on its way to
  std::int64_t arrived_ns_ = 0;              ///< when it was told to be there; 0: not yet
  std::int64_t back_ns_ = 0;                 ///< when it was told to be back; 0: not yet
  std::int64_t set_out_ns_ = 0;              ///< when it was to go there; 0: not yet
  std::optional<std::uint64_t> marker_set_;  ///< of the first frame
  bool has_others_ = false;                  ///< its markers were replaced
  bool sees_ = true;                         ///< the frame looked at last shows enough
};

}  // namespace driftd::daemon
