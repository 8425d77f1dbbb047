// SPDX-License-Identifier: MIT
// How late a frame came, by the camera's own clock, as long as that clock can be believed. Tracking
// loop.
//
// Camera and host clocks share no zero. The smallest (arrival - camera time) so far, the floor,
// stands for a frame without delay; a frame's excess over it is its delay. Two quartz clocks drift
// apart, and the floor follows them: it rises by up to 500 ppm while frames come without delay.
// While frames are late it goes on with the slope measured before, so that no backlog is taken for
// drift.
//
// A backlog of a second makes (arrival - camera time) a second larger, and so does a clock that
// stepped back by a second. The frame counter tells the two apart, because neither of them touches
// it. Between two frames, the counter times the frame period is how long really passed between the
// exposures:
//
//     camera time disagrees with the counter, arrivals agree   the clock stepped
//     arrivals disagree with the counter, camera time agrees   frames are delayed (or catch up)
//     both disagree, by the same amount                        the camera paused: no change
//     both disagree, differently                               taken as delay: the frame is older
//
// So the floor moves only when arrivals at the normal spacing prove that nothing was delayed, or
// when a frame arrived before it was taken. It moves by the difference between clock and counter: a
// backlog stays what it was, and a delayed frame stays a delayed frame. In between the counter
// gives the delay. If the clock is ahead of the counter while frames are late, either it stepped,
// or there were exposures that nobody counted. Until frames come without delay for a tenth of a
// second, they count as late as the worse of the two cases makes them (the doubt). If the clock is
// ahead by just what frames were late, exposures were left out.
//
// A clock that is slow from the first frame on agrees with its own counter, and looks like a queue
// that grows evenly. In this case the camera is asked for its time: wants_rate() says when, and the
// answer passes by the queue. If it proves the clock slow, and frames fall behind by just that, the
// clock is condemned: not used until the camera is opened anew.
//
// A camera without a steady period (triggers at any time) has no such witness. Against its clock
// speaks only what cannot be: time that stood or went back from one exposure to the next, a frame
// that arrived before it was taken, or delays that stay equal while the exposures' spacing varies
// (a queue evens arrivals out and passes that variation on to the delays). Anything else counts as
// delay.
//
// While the clock is not trusted (no time, the first frames, rate not that of real time, standing
// still, jumping about) the delay is 0: the frame's age then counts from its arrival, as trust()
// says. Limits: delays present from the first frame on are not seen. A link that carries less than
// two thirds of the frames from the first frame on, without losing any for a third of a second,
// looks like a slow clock. If a camera cannot be asked for its time, its slow clock is found only
// once that is five seconds behind. A step back in the very frame that the link held up counts as
// delay until the camera is opened anew. After a step ahead, frames that are late by just as much
// before it settled (0.2 s) count as being in time.
#pragma once

#include <cstdint>

#include "camera/clock_rate.hpp"

namespace driftd::daemon {

enum class ClockTrust : std::uint8_t {
  Absent,    ///< the camera gives no time
  Checking,  ///< the first frames, or the clock was found wrong a moment ago
  Trusted,
  Unusable,  ///< it does not run evenly at the rate of real time; still being checked
};
const char* name_of(ClockTrust trust) noexcept;

class CameraClock {
 public:
  /// The frame's delay beyond the fastest one's, ns; not negative.
  std::int64_t delay_ns(std::uint64_t frame_id, std::int64_t camera_time_ns,
                        std::int64_t arrival_ns) noexcept;
  /// Whether set_rate() could tell what the frames cannot: they are late, or the clock is slow.
  bool wants_rate() const noexcept;
  /// What the camera says of its clock; for the next frame.
  void set_rate(camera::ClockRate rate) noexcept { rate_ = rate; }
  /// The camera was away: its clock may have started anew.
  void restart() noexcept;

  ClockTrust trust() const noexcept;
  /// By how much of real time the clock was proven slow, if it is not used for that reason; 0: it
  /// was not.
  double slow() const noexcept { return slow_; }
  /// How often the clock stepped and was followed.
  std::uint64_t steps() const noexcept { return steps_; }
  /// How often it was wrong for a frame or a few and then right again.
  std::uint64_t jumps() const noexcept { return jumps_; }

 private:
  enum class Phase : std::uint8_t { New, Checking, Trusted, Suspect };
  enum class Verdict : std::uint8_t { Right, Wrong };
  /// A frame, its times counted from the first one's.
  struct Sighting {
    std::uint64_t id = 0;
    double camera_ns = 0;
    double arrival_ns = 0;
    double late_ns = 0;
    double offset_ns() const noexcept { return arrival_ns - camera_ns; }
  };
  /// Camera time and host time between two frames, and how long it was by the counter.
  struct Interval {
    Interval(const Sighting& from, const Sighting& to, double period_ns) noexcept;
    double camera_ns, host_ns, counted_ns;
    double camera_error_ns() const noexcept { return camera_ns - counted_ns; }
    double host_error_ns() const noexcept { return host_ns - counted_ns; }
  };
  /// The camera's time from frame to frame, and whether it is steady.
  class Period {
   public:
    void learn(const Sighting& from, const Sighting& to) noexcept;
    bool steady() const noexcept;
    double ns() const noexcept { return ns_; }

   private:
    double ns_ = 0;
    double odd_share_ = 0;  ///< share of the last frames that are an eighth of a period off
    int seen_ = 0;
  };
  /// The lowest of a value in one stretch of frames after the other.
  class Stretches {
   public:
    void clear() noexcept { *this = {}; }
    /// @return true when a stretch has just been completed and has one before it
    bool add(const Sighting& before, const Sighting& now, double value, int least_frames) noexcept;
    /// Whether the last two agree, the later having risen by at most `growth` of the time.
    bool agree(double growth) const noexcept;
    double lowest() const noexcept;  ///< of the last two
    int disagreements = 0;           ///< in a row; the owner counts

   private:
    struct Stretch {
      double start_ns = 0, lowest = 0;
      int frames = 0;
    };
    Stretch open_, last_, before_;
    int complete_ = 0;
  };
  /// Delays and spacings of the frames of a camera without a steady period, while they are late.
  class Unsteady {
   public:
    void clear() noexcept { frames_ = 0; }
    /// @return true when the delays stayed equal though the spacing varied
    bool add(const Sighting& now, double spacing_ns) noexcept;

   private:
    int frames_ = 0;
    double start_ns_ = 0;
    double least_late_ = 0, most_late_ = 0, least_spacing_ = 0, most_spacing_ = 0;
  };

  void begin(std::int64_t camera_time_ns, std::int64_t arrival_ns) noexcept;
  double check(const Sighting& now) noexcept;
  double follow(Sighting now) noexcept;
  double resolve(Sighting now) noexcept;
  Verdict judge(const Sighting& now) noexcept;
  bool left_the_counter(const Sighting& now) const noexcept;
  bool settled(const Sighting& now, double camera_error_ns) noexcept;
  void follow_step(Sighting& now) noexcept;
  void trust_from(Sighting now, double floor_ns) noexcept;
  void accept(Sighting& now) noexcept;
  bool slow_as_told(const Sighting& now) const noexcept;
  void settle_from(const Sighting& now) noexcept;
  void measure_slope_from(const Sighting& now, double floor_ns) noexcept;
  void lose_trust() noexcept;
  double floor_at(const Sighting& now) const noexcept;

  Phase phase_ = Phase::New;
  bool absent_ = false;
  bool unusable_ = false;
  bool condemned_ = false;  ///< proven too slow: not trusted again before restart()
  double slow_ = 0;
  camera::ClockRate rate_;
  std::int64_t camera_zero_ns_ = 0, arrival_zero_ns_ = 0;
  Sighting previous_;    ///< whatever it was
  Sighting last_;        ///< for which the clock was right
  Sighting near_;        ///< the last of these without delay
  double floor_ns_ = 0;  ///< at last_
  double slope_ = 0;     ///< of the floor
  double slope_base_ns_ = 0, slope_since_ns_ = 0, slope_after_ns_ = 0;
  double doubt_ns_ = 0, settled_since_ns_ = 0, settled_offset_ns_ = 0;
  bool slope_spoilt_ = false;  ///< a queue drained while it was measured
  Period period_;
  Stretches stretches_;          ///< of (arrival - camera time)
  Stretches counted_;            ///< of the suspected clock against the counter
  double lowest_offset_ns_ = 0;  ///< of the suspected frames
  double step_ns_ = 0;           ///< of the floor, once settled() says so
  Unsteady unsteady_;
  std::uint64_t steps_ = 0, jumps_ = 0;
};

}  // namespace driftd::daemon
