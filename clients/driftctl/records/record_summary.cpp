// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/record_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/in_words.hpp"

namespace driftd::clients {
namespace {

using record::FrameRow;
using record::frames_layout;
using record::LocalizationRow;
using record::localizations_layout;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kFewestToAnalyse = 64;                  // analyse_axis()
constexpr std::size_t kMostToAnalyse = std::size_t{1} << 18;  // half a million fit no better
/// A hole of a few frames is bridged, a longer one ends the run.
constexpr std::int64_t kLongestHoleNs = 100'000'000;

std::string state_name(const FrameRow& row) {
  return record::choice_name(frames_layout(), "state", row.state);
}
std::string z_state_name(const FrameRow& row) {
  return record::choice_name(frames_layout(), "z_state", row.z_state);
}

/// Goes on with the span of a state, or begins one, `passed_s` after the frame before.
void add_state(const std::string& state, double time_s, double passed_s,
               std::map<std::string, double>& state_s, std::vector<Span>& spans) {
  if (spans.empty() || spans.back().state != state) spans.push_back({time_s, time_s, state, ""});
  state_s[state] += passed_s;
  spans.back().end_s = time_s;
}

/// A place from where moves had the sample; in a record without moves, from the reference.
double less(double nm, double set_nm) {
  return std::isfinite(set_nm) ? nm - set_nm : nm;
}

/// The longest run of locked frames at even times.
class LockedRuns {
 public:
  void add(const FrameRow& row, bool locked) {
    const bool hole = !x_.empty() && row.taken_ns - last_ns_ > kLongestHoleNs;
    if (!locked || hole) take();
    if (!locked || !row.valid) return;
    if (x_.size() >= kMostToAnalyse) take();
    if (x_.empty()) begin_ns_ = row.taken_ns;
    x_.push_back(less(row.frame_x_nm, row.set_x_nm));
    y_.push_back(less(row.frame_y_nm, row.set_y_nm));
    z_.push_back(less(row.frame_z_nm, row.set_z_nm));
    last_ns_ = row.taken_ns;
  }
  void finish(RecordSummary& summary) {
    take();
    if (best_x_.size() < kFewestToAnalyse || best_s_ <= 0) return;
    const double rate_hz = static_cast<double>(best_x_.size() - 1) / best_s_;
    summary.analysed_s = best_s_;
    summary.axes = {analyse_axis(best_x_, rate_hz), analyse_axis(best_y_, rate_hz)};
    summary.spectra = {power_spectrum(best_x_, rate_hz), power_spectrum(best_y_, rate_hz)};
    if (!std::ranges::all_of(best_z_, [](double z_nm) { return std::isfinite(z_nm); })) return;
    summary.z_axis = analyse_axis(best_z_, rate_hz);
    summary.z_spectrum = power_spectrum(best_z_, rate_hz);
  }

 private:
  void take() {
    if (x_.size() > best_x_.size()) {
      best_x_ = x_;
      best_y_ = y_;
      best_z_ = z_;
      best_s_ = static_cast<double>(last_ns_ - begin_ns_) * 1e-9;
    }
    x_.clear();
    y_.clear();
    z_.clear();
  }
  std::vector<double> x_, y_, z_, best_x_, best_y_, best_z_;
  std::int64_t begin_ns_ = 0, last_ns_ = 0;
  double best_s_ = 0;
};

class Frames {
 public:
  explicit Frames(RecordSummary& summary) : out_(summary) {}

  void add(const FrameRow& row) {
    if (out_.frames == 0) {
      first_ns_ = last_ns_ = row.arrival_ns;
      last_id_ = row.frame_id;
      out_.begin_wall_ns = row.wall_ns;
    }
    const double time_s = static_cast<double>(row.arrival_ns - first_ns_) * 1e-9;
    const std::string state = state_name(row);
    const double passed_s = static_cast<double>(row.arrival_ns - last_ns_) * 1e-9;
    add_state(state, time_s, passed_s, out_.state_s, out_.spans);
    const std::string z_state = z_state_name(row);
    add_state(z_state, time_s, passed_s, out_.z_lock.state_s, out_.z_lock.spans);
    out_.z_lock.engaged = out_.z_lock.engaged || z_state != "idle";
    if (row.frame_id > last_id_ + 1) out_.missing += row.frame_id - last_id_ - 1;
    last_ns_ = row.arrival_ns;
    last_id_ = row.frame_id;
    ++out_.frames;
    out_.stale += row.stale ? 1 : 0;
    out_.valid += row.valid ? 1 : 0;
    out_.in_lock += row.in_lock ? 1 : 0;
    if (passed_s * 1e9 > static_cast<double>(kLongestHoleNs)) add_curves(time_s, {});
    add_curves(time_s, row);
    const bool locked = state == "locked";
    add_residual(row, locked);
    add_z_residual(row, locked, z_state == "locked");
    runs_.add(row, locked);
    if (row.sent_ns > 0)
      out_.latency_us.push_back(static_cast<double>(row.sent_ns - row.arrival_ns) * 1e-3);
    if (row.z_correction != record::Sent::NoCorrection) ++out_.z_lock.corrections;
    if (row.z_correction == record::Sent::NotLeft) ++out_.z_lock.not_left;
    if (row.correction == record::Sent::NoCorrection) return;
    ++out_.corrections;
    out_.not_left += row.correction == record::Sent::NotLeft ? 1 : 0;
    out_.limited += row.limited != 0 ? 1 : 0;
  }

  void finish() {
    out_.seconds = static_cast<double>(last_ns_ - first_ns_) * 1e-9;
    out_.rate_hz = out_.seconds > 0 ? static_cast<double>(out_.frames - 1) / out_.seconds : 0;
    const auto root_mean = [](double sum, std::uint64_t count) {
      return count > 0 ? std::sqrt(sum / static_cast<double>(count)) : kNaN;
    };
    for (std::size_t axis = 0; axis < 2; ++axis) {
      out_.locked_rms_nm[axis] = root_mean(locked_sum_[axis], out_.locked_frames);
      out_.witness_rms_nm[axis] = root_mean(witness_sum_[axis], witness_frames_);
    }
    const ZSum& z = held_z_.frames > 0 ? held_z_ : beside_z_;
    out_.locked_z_rms_nm = root_mean(z.squares_nm2, z.frames);
    runs_.finish(out_);
    std::ranges::sort(out_.latency_us);
  }
  std::int64_t first_ns() const noexcept { return first_ns_; }

 private:
  /// A row without values parts the curves.
  void add_curves(double time_s, const FrameRow& row) {
    out_.time_s.push_back(time_s);
    out_.x_nm.push_back(row.x_nm);
    out_.y_nm.push_back(row.y_nm);
    out_.witness_x_nm.push_back(row.witness_x_nm);
    out_.witness_y_nm.push_back(row.witness_y_nm);
    out_.z_nm.push_back(row.z_nm);
    out_.witness_z_nm.push_back(row.witness_z_nm);
    if (std::isfinite(row.z_nm)) ++out_.z_frames;
    out_.total_x_nm.push_back(row.total_x_nm);
    out_.total_y_nm.push_back(row.total_y_nm);
    out_.z_lock.total_nm.push_back(row.total_z_nm);
  }
  void add_residual(const FrameRow& row, bool locked) {
    if (!locked || !row.valid) return;
    ++out_.locked_frames;
    locked_sum_[0] += std::pow(less(row.x_nm, row.set_x_nm), 2);
    locked_sum_[1] += std::pow(less(row.y_nm, row.set_y_nm), 2);
    if (!row.witness_valid) return;
    ++witness_frames_;
    witness_sum_[0] += std::pow(less(row.witness_x_nm, row.set_x_nm), 2);
    witness_sum_[1] += std::pow(less(row.witness_y_nm, row.set_y_nm), 2);
  }

  /// z while it was locked, and while x and y alone were.
  void add_z_residual(const FrameRow& row, bool locked, bool z_locked) {
    if (!std::isfinite(row.z_nm) || !(z_locked || (locked && row.valid))) return;
    ZSum& sum = z_locked ? held_z_ : beside_z_;
    ++sum.frames;
    sum.squares_nm2 += std::pow(less(row.z_nm, row.set_z_nm), 2);
  }

  struct ZSum {
    std::uint64_t frames = 0;
    double squares_nm2 = 0;
  };
  RecordSummary& out_;
  LockedRuns runs_;
  ZSum held_z_, beside_z_;
  std::int64_t first_ns_ = 0, last_ns_ = 0;
  std::uint64_t last_id_ = 0, witness_frames_ = 0;
  std::array<double, 2> locked_sum_{}, witness_sum_{};
};

void add_markers(const RecordFiles& record, double pixel_nm, RecordSummary& summary) {
  struct Sums {
    MarkerHealth marker;
    std::uint64_t fitted = 0, good = 0;
    double sd2_px2 = 0, residual2_nm2 = 0, sigma_px = 0, amplitude_adu = 0;
    double z_sd2_nm2 = 0, residual2_z_nm2 = 0;
  };
  std::map<std::uint32_t, Sums> all;
  record.each_localizations([&](std::span<const LocalizationRow> rows) {
    for (const LocalizationRow& row : rows) {
      Sums& sums = all[row.marker_id];
      sums.marker.id = row.marker_id;
      sums.marker.witness = row.role != 0;
      ++sums.marker.frames;
      const std::string health = record::choice_name(localizations_layout(), "health", row.health);
      ++sums.marker.health[health];
      if (!row.fitted) continue;
      ++sums.fitted;
      sums.sigma_px += row.sigma_px;
      sums.amplitude_adu += row.amplitude_adu;
      sums.sd2_px2 += 0.5 * (std::pow(row.x_sd_px, 2) + std::pow(row.y_sd_px, 2));
      if (std::isfinite(row.residual_z_nm) && std::isfinite(row.z_sd_nm)) {
        ++sums.marker.z_frames;
        sums.z_sd2_nm2 += std::pow(row.z_sd_nm, 2);
        sums.residual2_z_nm2 += std::pow(row.residual_z_nm, 2);
      }
      if (health != "good" || !std::isfinite(row.residual_x_nm)) continue;
      ++sums.good;
      sums.residual2_nm2 += 0.5 * (std::pow(row.residual_x_nm, 2) + std::pow(row.residual_y_nm, 2));
    }
  });
  for (auto& [id, sums] : all) {
    const auto fitted = static_cast<double>(sums.fitted);
    sums.marker.sd_nm = std::sqrt(sums.sd2_px2 / fitted) * pixel_nm;
    sums.marker.residual_nm = std::sqrt(sums.residual2_nm2 / static_cast<double>(sums.good));
    sums.marker.sigma_px = sums.sigma_px / fitted;
    sums.marker.amplitude_adu = sums.amplitude_adu / fitted;
    if (const auto with_z = static_cast<double>(sums.marker.z_frames); with_z > 0) {
      sums.marker.z_sd_nm = std::sqrt(sums.z_sd2_nm2 / with_z);
      sums.marker.residual_z_nm = std::sqrt(sums.residual2_z_nm2 / with_z);
    }
    summary.markers.push_back(sums.marker);
  }
}

void add_pattern(const RecordFiles& record, std::int64_t first_ns, RecordSummary& summary) {
  PatternCurves& out = summary.pattern;
  for (const record::PatternRow& row : record.pattern()) {
    out.time_s.push_back(static_cast<double>(row.time_ns - first_ns) * 1e-9);
    out.rotation_mrad.push_back(row.rotation_mrad);
    out.scale_ppm.push_back(row.scale_ppm);
    out.tilt_x_mrad.push_back(row.tilt_x_mrad);
    out.tilt_y_mrad.push_back(row.tilt_y_mrad);
    if (std::isfinite(row.rotation_mrad)) out.last = row;
  }
}

/// The span that begins with a change to `state` at `time_s`. Frames show states only while they
/// come: what began without any is put between them. Null: frames contradict.
Span* begun(const std::string& state, double time_s, std::vector<Span>& spans) {
  auto next = std::ranges::upper_bound(spans, time_s, {}, &Span::begin_s);
  const bool follows = next != spans.end() && next->state == state;
  if (next == spans.begin()) return follows ? &*next : nullptr;
  Span& before = *(next - 1);
  if (before.state == state) return &before;
  if (time_s < before.end_s) return follows ? &*next : nullptr;
  before.end_s = time_s;
  if (follows)
    next->begin_s = time_s;
  else
    next = spans.insert(next, {time_s, time_s, state, ""});
  return &*next;
}

/// The times and reasons of a lock's changes, from its events, which have `code`.
void add_reasons(const char* code, std::int64_t first_ns, const std::vector<record::Event>& events,
                 std::vector<Span>& spans) {
  for (const record::Event& event : events) {
    if (event.code != code) continue;
    const auto fields = nlohmann::json::parse(event.fields, nullptr, false);
    if (!fields.is_object()) continue;
    const std::string state = fields.value("state", "");
    const double time_s =
        static_cast<double>(fields.value("since_ns", event.time_ns) - first_ns) * 1e-9;
    Span* const span = begun(state, time_s, spans);
    if (span == nullptr) continue;
    const std::string reason =
        in_words(fields.value("reason", ""), fields.value("held_for", "none"), "none");
    if (span->reason.empty())
      span->reason = reason;
    else if (fields.value("previous", "") == "holding" && state == "holding" &&
             span->reason.find(reason) == std::string::npos)
      span->reason += ", then " + reason;
  }
}

}  // namespace

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return kNaN;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::llround(share * last))];
}

RecordSummary summarise(const RecordFiles& record) {
  RecordSummary summary;
  Frames frames(summary);
  record.each_frames([&](std::span<const FrameRow> rows) {
    for (const FrameRow& row : rows) frames.add(row);
  });
  frames.finish();
  add_markers(record, record.header().pixel_size_nm, summary);
  summary.events = record.events();
  add_reasons("state_changed", frames.first_ns(), summary.events, summary.spans);
  if (summary.z_lock.engaged)
    add_reasons("axial_state_changed", frames.first_ns(), summary.events, summary.z_lock.spans);
  add_pattern(record, frames.first_ns(), summary);
  const std::vector<record::CounterRow> counters = record.counters();
  if (!counters.empty()) summary.counters = {counters.front(), counters.back()};
  return summary;
}

}  // namespace driftd::clients
