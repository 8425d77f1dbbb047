// SPDX-License-Identifier: MIT
// What the driver of one group's stage tells of itself: keeps its newest report, tells the loop
// whether the stage obeys and where it says that it is, and tells people of changes. Drivers that
// only subscribe to corrections never come here, and nothing is known of them. Housekeeping thread;
// nothing here waits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/stage/axial_travel.hpp"
#include "daemon/stage/driver_timing.hpp"
#include "daemon/stage/stage_report.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// How many corrections left in the last second. Plain values.
class SentLately {
 public:
  /// @param sent  since whenever
  void see(std::uint64_t sent, std::int64_t now_ns) noexcept;
  /// A second; 0: it was not watched for so long.
  double hz() const noexcept { return hz_; }

 private:
  static constexpr std::size_t kMarks = 11;
  struct Mark {
    std::int64_t at_ns = 0;
    std::uint64_t sent = 0;
  };
  std::array<Mark, kMarks> marks_{};  ///< each tenth of a second, the newest first
  double hz_ = 0;
};

class StageChannel {
 public:
  /// A driver that has told nothing for so long is silent; it reports every 50 ms.
  static constexpr std::int64_t kSilentNs = 500'000'000;
  /// A stage that was in trouble is believed again when it has been ready for so long. Where
  /// trouble comes and goes with each report, the lock would, too.
  static constexpr std::int64_t kBelievedNs = 200'000'000;

  /// @param config  the one in force
  /// @param session  this daemon's
  StageChannel(const config::Config& config, std::string session, LoopPorts& ports,
               LoopControl& loop, EventLog& events, AxisGroup group = AxisGroup::Lateral)
      : config_(config),
        session_(std::move(session)),
        group_(group),
        ports_(ports.of(group)),
        loop_(loop),
        events_(events) {}

  /// Who is given each report that was taken, with the time. Before the first.
  void hear(std::function<void(const StageReport&, std::int64_t)> listener) {
    listener_ = std::move(listener);
  }
  /// The command `stage`. @throws CommandRefused: it makes no sense, or another driver reports
  Reply take(const nlohmann::json& request, std::int64_t now_ns);
  /// The same for a report of this group's stage.
  Reply take(StageReport report, std::int64_t now_ns);
  /// @throws CommandRefused: another driver reports
  void check(const StageReport& report) const;
  /// Notices silence, and what does not fit the configuration.
  void turn(std::int64_t now_ns);

  /// This daemon's: another one after each start.
  const std::string& session() const noexcept { return session_; }
  /// The driver's newest; none while there is none.
  const std::optional<StageReport>& report() const noexcept { return report_; }
  /// Why a lock might move nothing, for people; empty: the driver says that the stage is ready.
  std::string problem() const;
  /// A driver that went silent before a lock is no part of it.
  void forget_silent();
  /// What the driver adds to stage.delay_us because it takes fewer commands than frames come: half
  /// the time between two, on average, us.
  double waiting_us() const;
  /// Corrections a second that it takes, where that is fewer than frames come; else 0.
  double takes_hz() const;
  /// Likewise, but the frames' rate where it is known to take them all.
  double known_to_take_hz() const;
  DriverTiming timing() const;
  /// Of the axis z, where the driver is heard and tells its position.
  std::optional<AxialTravel> axial_travel() const;
  /// The object `stage_driver` of `status`; null while there is none.
  nlohmann::json status(std::int64_t now_ns) const;

 private:
  const LockReport& lock_now() const noexcept { return loop_.report().of(group_); }
  void raise(EventLog::Level level, const std::string& text, const nlohmann::json& fields);
  const char* who() const noexcept;
  std::optional<StageReadback> place() const;
  void tell_driver(bool is_new);
  void tell_loop();
  bool was_in_trouble() const noexcept;
  void compare(std::int64_t now_ns);
  void see_rate();
  bool is_seen_slow() const noexcept;
  control::StageSays says() const noexcept;
  bool is_locked() const noexcept;

  const config::Config& config_;
  std::string session_;
  const AxisGroup group_;
  LockPorts& ports_;
  LoopControl& loop_;
  EventLog& events_;
  std::optional<StageReport> report_;
  std::int64_t received_ns_ = 0;
  std::int64_t trouble_ns_ = 0;  ///< when it last reported trouble; 0: never
  std::string told_;             ///< what people were told of it
  bool silent_ = false;
  // Of a lock, in the mean of the last seconds.
  double moved_hz_ = 0;     ///< moves that it carried out; 0: not seen
  double asked_hz_ = 0;     ///< corrections that it was sent
  SentLately sent_lately_;  ///< in the last second
  bool told_slow_ = false, told_late_ = false, told_off_ = false;
  std::int64_t off_since_ns_ = 0;
  std::function<void(const StageReport&, std::int64_t)> listener_;
};

/// The command `stage`, to whom it concerns: a report may be of x, y and z.
/// @param z  null: z is not held. @throws CommandRefused, with nothing taken
Reply take_stage_report(const nlohmann::json& request, StageChannel& xy, StageChannel* z,
                        std::int64_t now_ns);

}  // namespace driftd::daemon
