// SPDX-License-Identifier: MIT
#include "clients/demo/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace driftd::clients {
namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;
constexpr auto kSettling_ns = static_cast<std::int64_t>(kSettling_s * kNsPerS);
/// Frames this close to the end may still be on their way.
constexpr std::int64_t kUnderWay_ns = kNsPerS / 5;
/// The wire carries decimals: a step at the limit may read this much above it.
constexpr double kRounding_nm = 1e-3;

/// Less than this share of the frame rate asked for is the computer's fault, not the lock's.
constexpr double kBusyBelow = 0.95;

double seconds(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / kNsPerS;
}

/// Mean per axis of what was added, or the root mean square and largest about a reference.
class Sums {
 public:
  explicit Sums(PerAxis about = {}) : about_(about) {}
  void add(const PerAxis& value) {
    ++count_;
    for (const std::size_t axis : {kX, kY}) {
      const double difference = value[axis] - about_[axis];
      sum_[axis] += difference;
      squares_[axis] += difference * difference;
      largest_[axis] = std::max(largest_[axis], std::abs(difference));
    }
  }
  std::size_t count() const { return count_; }
  PerAxis mean() const {
    return {about_[kX] + over_count(sum_[kX]), about_[kY] + over_count(sum_[kY])};
  }
  PerAxis rms() const {
    return {std::sqrt(over_count(squares_[kX])), std::sqrt(over_count(squares_[kY]))};
  }
  PerAxis largest() const { return largest_; }

 private:
  double over_count(double sum) const {
    return count_ == 0 ? 0.0 : sum / static_cast<double>(count_);
  }
  PerAxis about_;
  PerAxis sum_{}, squares_{}, largest_{};
  std::size_t count_ = 0;
};

void judge_positions(Report& report, const Recording& recording, const Phases& phases,
                     const Reference& reference, std::int64_t relocked) {
  Sums residual(reference.sample_nm);
  Sums unlocked(reference.disturbance_nm);
  const double frame_age_s = 1e-3 * report.expected.frame_age_ms;
  std::int64_t last_ns = 0;
  for (const TrueFrame& frame : recording.truth()) {
    const bool before_fault =
        frame.time_ns >= reference.locked_ns + kSettling_ns && frame.time_ns < phases.fault_ns;
    const bool after_fault =
        frame.time_ns >= relocked + kSettling_ns && frame.time_ns < phases.end_ns;
    if (!before_fault && !after_fault) continue;
    if (is_disturbed(report.stalls, frame.time_ns)) continue;
    const double since_last_s = seconds(last_ns, frame.time_ns);
    if (since_last_s <= frame_age_s) report.judged_s += since_last_s;
    last_ns = frame.time_ns;
    residual.add(frame.sample_nm);
    unlocked.add(frame.disturbance_nm);
    const PublishedPosition* position = recording.position_of(frame);
    if (position != nullptr && position->state != "locked") ++report.judged_not_locked;
  }
  report.judged_frames = residual.count();
  report.residual_rms_nm = residual.rms();
  report.residual_max_nm = residual.largest();
  report.unlocked_rms_nm = unlocked.rms();
}

void count_frames(Report& report, const Recording& recording, const Phases& phases,
                  std::int64_t relocked) {
  std::size_t fitted = 0;
  for (const TrueFrame& frame : recording.truth()) {
    if (!frame.sent || frame.time_ns < phases.unlocked_ns ||
        frame.time_ns >= phases.end_ns - kUnderWay_ns) {
      continue;
    }
    ++report.frames;
    if (frame.time_ns >= phases.fault_ns && frame.time_ns < relocked) continue;
    recording.position_of(frame) != nullptr ? ++fitted : ++report.frames_lost;
  }
  const double watched_s = seconds(phases.unlocked_ns, phases.fault_ns) +
                           std::max(0.0, seconds(relocked, phases.end_ns - kUnderWay_ns));
  report.rate_hz = static_cast<double>(fitted) / watched_s;
}

void find_steps(Report& report, const Recording& recording, const Phases& phases) {
  for (const PublishedCorrection& correction : recording.corrections()) {
    const double step =
        std::max(std::abs(correction.delta_nm[kX]), std::abs(correction.delta_nm[kY]));
    report.largest_step_nm = std::max(report.largest_step_nm, step);
    if (correction.sent_ns >= phases.fault_end_ns) {
      report.largest_step_after_reconnect_nm =
          std::max(report.largest_step_after_reconnect_nm, step);
    }
  }
}

/// Of the true positions and steps in x and y, or of z in place of x.
void measure(Report& report, const Recording& recording, const Phases& phases) {
  report.away_s = seconds(phases.fault_ns, phases.fault_end_ns);
  const std::optional<std::int64_t> relocked = relocked_ns(recording, phases);
  if (relocked) report.reconnect_s = seconds(phases.fault_ns, *relocked);
  if (const auto reference = reference_of(recording, phases.lock_ns))
    judge_positions(report, recording, phases, *reference, relocked.value_or(phases.end_ns));
  Sums watched(start_of(recording, phases.unlocked_ns));
  for (const TrueFrame& frame : recording.truth()) {
    if (frame.time_ns >= phases.unlocked_ns && frame.time_ns < phases.lock_ns)
      watched.add(frame.sample_nm);
  }
  report.watched_unlocked_rms_nm = watched.rms();
  find_steps(report, recording, phases);
}

/// While locked; the fault is none.
void find_stalls(Report& report, const Recording& recording, const Phases& phases,
                 std::int64_t relocked) {
  const double age_ms = report.expected.frame_age_ms;
  report.stalls = stalls_of(recording, phases.lock_ns, phases.fault_ns, age_ms);
  if (relocked >= phases.end_ns - kUnderWay_ns) return;
  for (const Stall& stall : stalls_of(recording, relocked, phases.end_ns - kUnderWay_ns, age_ms))
    report.stalls.push_back(stall);
}

AxialFigures measure_z(const Report& report, const Recording& recording, const Phases& phases) {
  Report z;
  z.expected = report.expected;
  z.stalls = report.stalls;
  measure(z, recording.axial(), phases);
  return {.residual_rms_nm = z.residual_rms_nm[kX],
          .residual_max_nm = z.residual_max_nm[kX],
          .unlocked_rms_nm = z.unlocked_rms_nm[kX],
          .watched_unlocked_rms_nm = z.watched_unlocked_rms_nm[kX],
          .judged_frames = z.judged_frames,
          .judged_not_locked = z.judged_not_locked,
          .largest_step_nm = z.largest_step_nm,
          .reconnect_s = z.reconnect_s};
}

/// What one axis showed.
struct Shown {
  const char* axis;
  double residual_rms_nm, unlocked_rms_nm, most_nm;
};

void judge_axis(Report& report, const Shown& shown) {
  const double most_nm =
      report.busy ? std::max(shown.most_nm, kLargestResidualBusy_nm) : shown.most_nm;
  // Negated, so that a NaN fails too.
  if (!(shown.residual_rms_nm <= most_nm)) {
    report.failures.push_back(
        fmt::format("The sample still moved by {:.2f} nm rms in {}; at most {:.0f} nm is good.",
                    shown.residual_rms_nm, shown.axis, most_nm));
  }
  if (!(shown.unlocked_rms_nm > kSmallestUnlocked_nm)) {
    report.failures.push_back(
        fmt::format("Unlocked, the sample moved by {:.2f} nm rms in {} only: there was too little "
                    "to correct.",
                    shown.unlocked_rms_nm, shown.axis));
  }
}

/// Without that, nothing that is said of the sample's place counts.
bool was_too_busy(const Report& report) {
  return !report.stalls.empty() && report.judged_s < kLeastJudged_s;
}

/// A lock that lets go where nothing is wrong is bad; beside a load the simulated stage follows
/// late, and it is right to hold then.
void judge_let_go(Report& report, const char* lock, std::size_t let_go, std::size_t judged) {
  const double borne = report.busy ? kMostLetGoBusy * static_cast<double>(judged) : 0;
  if (static_cast<double>(let_go) > borne)
    report.failures.push_back(
        fmt::format("{} let go outside the fault ({} of {} frames).", lock, let_go, judged));
}

void judge_z(Report& report) {
  const auto fail = [&](std::string sentence) { report.failures.push_back(std::move(sentence)); };
  const AxialFigures& z = *report.z;
  const double limit_nm = *report.expected.z_step_limit_nm;
  if (!was_too_busy(report)) {
    if (z.judged_frames == 0) fail("There was no time in which z was locked to judge.");
    judge_axis(report, {"z", z.residual_rms_nm, z.unlocked_rms_nm, kLargestResidualZ_nm});
  }
  judge_let_go(report, "The lock of z", z.judged_not_locked, z.judged_frames);
  if (!z.reconnect_s) fail("The lock of z did not come back after the camera was away.");
  if (!(z.largest_step_nm <= limit_nm + kRounding_nm))
    fail(
        fmt::format("A correction moved the stage by {:.3f} nm at once in z; the limit is {:.3f} "
                    "nm.",
                    z.largest_step_nm, limit_nm));
}

void judge(Report& report) {
  const auto fail = [&](std::string sentence) { report.failures.push_back(std::move(sentence)); };
  if (was_too_busy(report)) {
    fail(
        fmt::format("This computer was too busy to tell: it stalled {} times, and {:.1f} s are "
                    "left to judge.",
                    report.stalls.size(), report.judged_s));
  } else {
    if (report.judged_frames == 0) fail("There was no locked time to judge.");
    for (const std::size_t axis : {kX, kY})
      judge_axis(report, {axis == kX ? "x" : "y", report.residual_rms_nm[axis],
                          report.unlocked_rms_nm[axis], kLargestResidual_nm});
  }
  judge_let_go(report, "The lock", report.judged_not_locked, report.judged_frames);
  if (!report.reconnect_s) fail("The lock did not come back after the camera was away.");
  if (!(report.largest_step_nm <= report.expected.step_limit_nm + kRounding_nm)) {
    fail(fmt::format("A correction moved the stage by {:.3f} nm at once; the limit is {:.3f} nm.",
                     report.largest_step_nm, report.expected.step_limit_nm));
  }
  if (static_cast<double>(report.messages_missed) >
      kMostMissed * static_cast<double>(report.frames)) {
    fail(fmt::format("The demo missed {} messages, so its figures are not complete.",
                     report.messages_missed));
  }
}

std::vector<std::string> notes_of(const Report& report) {
  std::vector<std::string> notes;
  if (report.busy)
    notes.push_back(fmt::format(
        "{:.0f} of {:.0f} frames a second: this computer is too busy to simulate a microscope. Its "
        "stage follows late, and up to {:.0f} nm rms are no failure.",
        report.rate_hz, report.expected.rate_hz, kLargestResidualBusy_nm));
  if (!report.stalls.empty())
    notes.push_back(fmt::format(
        "it stalled {} times while locked, for {:.1f} s in all; they and {:.0f} s after each are "
        "not judged. Judged are {:.0f} s.",
        report.stalls.size(), total_s(report.stalls), kSettling_s, report.judged_s));
  const std::size_t let_go =
      std::max(report.judged_not_locked, report.z ? report.z->judged_not_locked : 0);
  if (let_go > 0)
    notes.push_back(
        fmt::format("meanwhile the lock held the stage where it was for {} frames.", let_go));
  if (report.messages_missed > 0)
    notes.push_back(fmt::format("the demo missed {} messages of driftd and the simulator.",
                                report.messages_missed));
  return notes;
}

}  // namespace

std::optional<Reference> reference_of(const Recording& recording, std::int64_t lock_ns) {
  Sums sample;
  Sums disturbance;
  for (const TrueFrame& frame : recording.truth()) {
    if (frame.time_ns < lock_ns) continue;
    const PublishedPosition* position = recording.position_of(frame);
    if (position == nullptr) continue;
    if (position->state == "referencing") {
      sample.add(frame.sample_nm);
      disturbance.add(frame.disturbance_nm);
    } else if (position->state == "locked" && sample.count() > 0) {
      return Reference{sample.mean(), disturbance.mean(), frame.time_ns};
    }
  }
  return std::nullopt;
}

PerAxis start_of(const Recording& recording, std::int64_t from_ns) {
  Sums sample;
  for (const TrueFrame& frame : recording.truth()) {
    if (frame.time_ns >= from_ns && frame.time_ns < from_ns + kNsPerS / 2) {
      sample.add(frame.sample_nm);
    }
  }
  return sample.mean();
}

std::optional<std::int64_t> relocked_ns(const Recording& recording, const Phases& phases) {
  // Halfway through the absence no frame from before it is on its way any more.
  const std::int64_t from_ns = phases.fault_ns + (phases.fault_end_ns - phases.fault_ns) / 2;
  for (const PublishedPosition& position : recording.positions()) {
    if (position.arrival_ns >= from_ns && position.state == "locked") return position.arrival_ns;
  }
  return std::nullopt;
}

Report make_report(const Recording& recording, const Phases& phases, const nlohmann::json& status,
                   const Expected& expected) {
  Report report;
  report.expected = expected;
  report.messages_missed = recording.missed();
  const std::int64_t relocked = relocked_ns(recording, phases).value_or(phases.end_ns);
  find_stalls(report, recording, phases, relocked);
  measure(report, recording, phases);
  count_frames(report, recording, phases, relocked);
  report.busy = !report.stalls.empty() || report.rate_hz < kBusyBelow * expected.rate_hz;
  if (expected.z_step_limit_nm) report.z = measure_z(report, recording, phases);
  const nlohmann::json::json_pointer latency("/latency_us/total");
  if (status.contains(latency)) report.latency_us = status.at(latency);
  const nlohmann::json::json_pointer backend("/fitter/backend");
  if (status.contains(backend)) report.backend = status.at(backend).get<std::string>();
  judge(report);
  if (report.z) judge_z(report);
  return report;
}

nlohmann::json to_json(const Report& report) {
  const auto rounded = [](double value) { return std::round(value * 1e3) / 1e3; };
  const auto axes = [&](const PerAxis& value) {
    return nlohmann::json{{"x", rounded(value[kX])}, {"y", rounded(value[kY])}};
  };
  nlohmann::json latency_us;
  for (const char* key : {"p50", "p99", "p99_9", "max"}) {
    const auto value = report.latency_us.find(key);  // end() too when it is no object
    const bool known = value != report.latency_us.end() && value->is_number();
    latency_us[key] = known ? nlohmann::json(rounded(value->get<double>())) : nullptr;
  }
  nlohmann::json z;
  if (report.z)
    z = {{"residual_rms_nm", rounded(report.z->residual_rms_nm)},
         {"residual_max_nm", rounded(report.z->residual_max_nm)},
         {"unlocked_rms_nm", rounded(report.z->unlocked_rms_nm)},
         {"watched_unlocked_rms_nm", rounded(report.z->watched_unlocked_rms_nm)},
         {"step_limit_nm", report.expected.z_step_limit_nm.value_or(0)},
         {"largest_step_nm", report.z->largest_step_nm},
         {"reconnect_s",
          report.z->reconnect_s ? nlohmann::json(rounded(*report.z->reconnect_s)) : nullptr}};
  return {
      {"z", z},
      {"residual_rms_nm", axes(report.residual_rms_nm)},
      {"residual_max_nm", axes(report.residual_max_nm)},
      {"unlocked_rms_nm", axes(report.unlocked_rms_nm)},
      {"watched_unlocked_rms_nm", axes(report.watched_unlocked_rms_nm)},
      {"judged_frames", report.judged_frames},
      {"judged_s", rounded(report.judged_s)},
      {"busy", report.busy},
      {"stalls", report.stalls.size()},
      {"stalled_s", rounded(total_s(report.stalls))},
      {"frames", report.frames},
      {"frames_lost", report.frames_lost},
      {"rate_hz", rounded(report.rate_hz)},
      {"latency_us", latency_us},
      {"backend", report.backend},
      {"away_s", report.away_s},
      {"reconnect_s", report.reconnect_s ? nlohmann::json(rounded(*report.reconnect_s)) : nullptr},
      {"step_limit_nm", report.expected.step_limit_nm},
      {"largest_step_nm", report.largest_step_nm},
      {"largest_step_after_reconnect_nm", report.largest_step_after_reconnect_nm},
      {"messages_missed", report.messages_missed},
      {"failures", report.failures}};
}

std::vector<Line> to_lines(const Report& report) {
  std::vector<Line> lines;
  const auto add = [&](std::string text, Tone tone = Tone::Plain) {
    lines.push_back({std::move(text), tone});
  };
  const auto axes = [&](const char* label, const PerAxis& value, double AxialFigures::*z) {
    add(fmt::format("{:<44}{:>9.2f}{:>9.2f}{} nm", label, value[kX], value[kY],
                    report.z ? fmt::format("{:>9.2f}", *report.z.*z) : ""));
  };
  const nlohmann::json json = to_json(report);
  const auto latency = [&](const char* key) {
    const nlohmann::json& value = json["latency_us"][key];
    return value.is_number() ? fmt::format("{:.0f}", value.get<double>()) : std::string("-");
  };
  add(fmt::format("{:<44}{:>9}{:>9}{}", "True sample position (the simulator's)", "x", "y",
                  report.z ? fmt::format("{:>9}", "z") : ""),
      Tone::Heading);
  axes("  while unlocked, rms from its start", report.watched_unlocked_rms_nm,
       &AxialFigures::watched_unlocked_rms_nm);
  axes("  had it stayed unlocked, rms, same time", report.unlocked_rms_nm,
       &AxialFigures::unlocked_rms_nm);
  axes("  locked, rms from the reference", report.residual_rms_nm, &AxialFigures::residual_rms_nm);
  axes("  locked, largest", report.residual_max_nm, &AxialFigures::residual_max_nm);
  add(fmt::format("Frames       {} at {:.1f} Hz, {} lost outside the fault", report.frames,
                  report.rate_hz, report.frames_lost));
  add(fmt::format("Latency      p50 {}, p99 {}, p99.9 {}, max {} us, frame to correction ({})",
                  latency("p50"), latency("p99"), latency("p99_9"), latency("max"),
                  report.backend));
  if (report.reconnect_s) {
    add(fmt::format(
        "Camera away  {:.1f} s; locked again {:.2f} s after it went; steps up to {:.2f} nm"
        " (limit {:.0f})",
        report.away_s, *report.reconnect_s, report.largest_step_after_reconnect_nm,
        report.expected.step_limit_nm));
  }
  for (const std::string& note : notes_of(report)) add("Note: " + note, Tone::Warning);
  for (const std::string& failure : report.failures) add("FAILED: " + failure, Tone::Bad);
  if (report.failures.empty())
    add(report.z ? "The lock held, in x, y and z." : "The lock held.", Tone::Good);
  return lines;
}

}  // namespace driftd::clients
