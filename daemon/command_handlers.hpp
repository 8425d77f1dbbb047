// SPDX-License-Identifier: MIT
// The commands of docs/reference/protocol.md: checks what was asked and hands it to the part that
// does it. Housekeeping thread; nothing here waits.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/calibration/axial_sweep.hpp"
#include "daemon/calibration/calibration.hpp"
#include "daemon/camera/snapshots.hpp"
#include "daemon/exposure.hpp"
#include "daemon/markers/marker_keeper.hpp"
#include "daemon/orders/lock_orders.hpp"
#include "daemon/orders/move_orders.hpp"
#include "daemon/places/places.hpp"
#include "daemon/recorder/frame_keeper.hpp"
#include "daemon/recorder/record_keeper.hpp"
#include "daemon/resume/lock_recovery.hpp"
#include "daemon/stage/stage_channel.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

class CommandHandlers {
 public:
  using Json = nlohmann::json;

  /// What holds z.
  struct Axial {
    LockOrders& lock;
    MoveOrders& moves;
    StageChannel& stage;
    AxialSweep& sweep;
    std::function<bool()> is_held;  ///< a plain `lock` holds z, too: axial.hold
  };

  /// @param status  composes the object of `status`
  CommandHandlers(LockOrders& lock, MoveOrders& moves, LockRecovery& interrupted,
                  MarkerKeeper& markers, Exposure& exposure, Snapshots& snapshots,
                  Calibration& calibration, StageChannel& stage, RecordKeeper& record,
                  FrameKeeper& raw_frames, Places& places, std::function<Json()> status,
                  std::optional<Axial> axial = std::nullopt)
      : lock_(lock),
        moves_(moves),
        interrupted_(interrupted),
        markers_(markers),
        exposure_(exposure),
        snapshots_(snapshots),
        calibration_(calibration),
        stage_(stage),
        record_(record),
        raw_frames_(raw_frames),
        places_(places),
        status_(std::move(status)),
        axial_(std::move(axial)) {}

  /// Begins to carry out a request: a JSON object with a string `command`. @throws CommandRefused
  void carry_out(const Json& request, Answer answer, std::int64_t now_ns);

 private:
  void calibrate(const Json& request, Answer answer, std::int64_t now_ns);
  void lock(const Json& request, Answer answer, std::int64_t now_ns);
  void unlock(const Json& request, Answer answer, std::int64_t now_ns);
  void reset(Answer answer, std::int64_t now_ns);
  void move(const Json& request, Answer answer, std::int64_t now_ns);
  void exposure(const Json& request, Answer answer, std::int64_t now_ns);
  void place(const Json& request, Answer answer, std::int64_t now_ns);

  LockOrders& lock_;
  MoveOrders& moves_;
  LockRecovery& interrupted_;
  MarkerKeeper& markers_;
  Exposure& exposure_;
  Snapshots& snapshots_;
  Calibration& calibration_;
  StageChannel& stage_;
  RecordKeeper& record_;
  FrameKeeper& raw_frames_;
  Places& places_;
  std::function<Json()> status_;
  std::optional<Axial> axial_;  ///< none: z is not measured
};

}  // namespace driftd::daemon
