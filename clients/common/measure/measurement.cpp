// SPDX-License-Identifier: MIT
#include "clients/common/measure/measurement.hpp"
#include "base/counted.hpp"
#include "base/median.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace driftd::clients {
namespace {

using nlohmann::json;

constexpr std::size_t kLeastFrames = 64;
/// Bridging more would tell of the bridges.
constexpr double kMostMissing = 0.5;
constexpr double kMostClockError = 0.25;  // a camera's clock that is further off is of other units
/// Frames; beyond, the camera was away.
constexpr double kLongestGap = 1e6;
constexpr std::size_t kSlopeParts = 8;
constexpr std::size_t kLinesTold = 5;
/// No marker is accused by fewer messages: from so many on its scatter is known to a tenth.
constexpr std::size_t kLeastMessages = 50;
/// A marker hurts that scatters, or wanders, by so many times the scatter that its fits promise.
constexpr double kMuchScatter = 1.5;
constexpr double kMuchWander = 1.5;
constexpr double kOftenGood = 0.9;
/// A marker that was good less often is no part of what the markers allow.
constexpr double kOftenEnough = 0.5;
/// Least expected scatter, over that of the marker's own fits, for a comparison: a marker that
/// makes up most of the mean leaves nothing to compare it with.
constexpr double kLeastExpected = 0.2;

struct LineFit {
  double mean, slope;  ///< per sample
};

LineFit fit_line(const double* values, std::size_t count) {
  const double n = static_cast<double>(count);
  double sum = 0, moment = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += values[i];
    moment += (static_cast<double>(i) - (n - 1) / 2) * values[i];
  }
  return {sum / n, moment * 12 / (n * (n * n - 1))};
}

/// What is left of places in nm at equal intervals when the line through them is taken out.
std::vector<double> without_line(const std::vector<double>& places_nm, const LineFit& line) {
  std::vector<double> left = places_nm;
  const double middle = (static_cast<double>(places_nm.size()) - 1) / 2;
  for (std::size_t i = 0; i < left.size(); ++i)
    left[i] -= line.mean + line.slope * (static_cast<double>(i) - middle);
  return left;
}

double rms(const std::vector<double>& values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
}

double slope_sd(const std::vector<double>& places_nm) {
  const std::size_t length = places_nm.size() / kSlopeParts;
  std::vector<double> slopes;
  for (std::size_t part = 0; part < kSlopeParts; ++part)
    slopes.push_back(fit_line(places_nm.data() + part * length, length).slope);
  const double mean = fit_line(slopes.data(), slopes.size()).mean;
  double squares = 0;
  for (const double s : slopes) squares += (s - mean) * (s - mean);
  return std::sqrt(squares / static_cast<double>(kSlopeParts * (kSlopeParts - 1)));
}

std::vector<AllanPoint> allan_deviation(const std::vector<double>& places_nm, double rate_hz) {
  std::vector<double> sums{0};
  for (const double place : places_nm) sums.push_back(sums.back() + place);
  std::vector<AllanPoint> points;
  for (std::size_t m = 1; 4 * m <= places_nm.size(); m *= 2) {
    double squares = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i + 2 * m < sums.size(); ++i, ++count) {
      const double step = (sums[i + 2 * m] - 2 * sums[i + m] + sums[i]) / static_cast<double>(m);
      squares += step * step;
    }
    points.push_back(
        {static_cast<double>(m) / rate_hz, std::sqrt(squares / (2 * static_cast<double>(count)))});
  }
  return points;
}

/// The standard deviation of independent noise, from one value to the next.
double scatter(const std::vector<double>& values) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < values.size(); ++i) steps.push_back(values[i] - values[i - 1]);
  return rms(steps) / std::numbers::sqrt2;
}

/// What the rms about the mean has beside that scatter.
double wander(const std::vector<double>& values, double scatter) {
  if (values.empty()) return 0;
  const double mean = fit_line(values.data(), values.size()).mean;
  const double all = rms(without_line(values, {mean, 0}));
  return std::sqrt(std::max(0.0, all * all - scatter * scatter));
}

double number(const json& object, const std::string& key) {
  const json& value = object.at(key);
  return value.is_number() ? value.get<double>() : NAN;
}

/// The same of what an older daemon does not tell.
double number_if_told(const json& object, const std::string& key) {
  return object.contains(key) ? number(object, key) : NAN;
}

/// Places at equal intervals: the way between two that others are missing from is straight.
class EvenPlaces {
 public:
  /// @param step  intervals since the one before
  void add(double nm, std::uint64_t step) {
    const double before_nm = nm_.empty() ? nm : nm_.back();
    if (nm_.empty()) step = 1;
    for (std::uint64_t s = 1; s <= step; ++s)
      nm_.push_back(before_nm +
                    (nm - before_nm) * static_cast<double>(s) / static_cast<double>(step));
  }
  const std::vector<double>& nm() const { return nm_; }

 private:
  std::vector<double> nm_;
};

std::string remark_on(const MarkerReport& marker, std::size_t messages) {
  if (marker.good_share < kOftenGood)
    return fmt::format("good only in {:.0f} % of the time", 100 * marker.good_share);
  if (messages < kLeastMessages) return {};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const char* name = axis == 0 ? "x" : "y";
    if (!(marker.expected_nm[axis] > kLeastExpected * marker.fit_sd_nm[axis])) continue;
    const double ratio = marker.scatter_nm[axis] / marker.expected_nm[axis];
    if (ratio > kMuchScatter)
      return fmt::format("scatters {:.1f} times as much in {} as its fits say", ratio, name);
    if (marker.wander_nm[axis] > kMuchWander * marker.expected_nm[axis])
      return fmt::format("wanders by {:.2f} nm in {} against the others", marker.wander_nm[axis],
                         name);
  }
  return {};
}

}  // namespace

AxisReport analyse_axis(const std::vector<double>& places_nm, double rate_hz) {
  AxisReport report;
  const LineFit line = fit_line(places_nm.data(), places_nm.size());
  report.drift_nm_per_min = line.slope * rate_hz * 60;
  report.drift_sd_nm_per_min = slope_sd(places_nm) * rate_hz * 60;
  const std::vector<double> left = without_line(places_nm, line);
  report.about_line_nm = rms(left);
  report.allan = allan_deviation(places_nm, rate_hz);
  report.spectrum = power_spectrum(left, rate_hz);
  report.frame_noise_nm = white_noise(report.spectrum);
  report.lines = vibration_lines(report.spectrum, kLinesTold);
  return report;
}

void Measurement::add_position(const json& position) {
  const std::string session = position.at("session");
  const std::string state = position.at("state");
  const json told_z = position.value("z_state", json());
  const std::string z_state = told_z.is_string() ? told_z.get<std::string>() : "";
  if (session_.empty()) {
    session_ = session;
    state_ = state;
    z_state_ = z_state;
  }
  if (session != session_)
    problem_ = "driftd was restarted meanwhile";
  else if (state != state_)
    problem_ = "the lock changed from " + state_ + " to " + state + " meanwhile";
  else if (z_state != z_state_)
    problem_ = "the lock of z changed from " + z_state_ + " to " + z_state + " meanwhile";
  if (!problem_.empty() || !position.at("valid").get<bool>()) return;
  const json& camera_ns = position.at("camera_time_ns");
  const Place place{position.at("frame_id"),
                    position.at("arrival_ns"),
                    camera_ns.is_number() ? camera_ns.get<std::int64_t>() : 0,
                    {number(position, "frame_x_nm"), number(position, "frame_y_nm")},
                    {number(position, "x_sd_nm"), number(position, "y_sd_nm")},
                    number_if_told(position, "frame_z_nm"),
                    number_if_told(position, "z_sd_nm")};
  for (std::size_t axis = 0; axis < 2; ++axis)
    if (!std::isfinite(place.nm[axis]) || !std::isfinite(place.sd_nm[axis])) return;
  if (!places_.empty()) {
    const std::uint64_t last = places_.back().frame_id;
    if (place.frame_id <= last) {
      problem_ = fmt::format("frame {} came after frame {}", place.frame_id, last);
      return;
    }
    if (static_cast<double>(place.frame_id - last) > kLongestGap) {
      problem_ = fmt::format("no frame has a position from {} to {}", last, place.frame_id);
      return;
    }
  }
  places_.push_back(place);
}

void Measurement::add_event(const json& event) {
  if (event.at("code") == "markers_found") problem_ = "other markers were found meanwhile";
}

void Measurement::add_markers(const json& message) {
  ++marker_messages_;
  for (const json& m : message.at("markers")) {
    const int id = m.at("id");
    auto track = std::find_if(markers_.begin(), markers_.end(),
                              [&](const MarkerTrack& t) { return t.id == id; });
    if (track == markers_.end())
      track = markers_.insert(markers_.end(), {id, m.at("role") == "witness", {}, {}});
    if (m.at("health") != "good") continue;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::string name = axis == 0 ? "x" : "y";
      const double residual = number(m, "residual_" + name + "_nm");
      const double sd = number(m, name + "_sd_nm");
      if (!std::isfinite(residual) || !std::isfinite(sd)) continue;
      track->residual_nm[axis].push_back(residual);
      track->sd_nm[axis].push_back(sd);
    }
    const double residual_z = number_if_told(m, "residual_z_nm");
    const double sd_z = number_if_told(m, "z_sd_nm");
    if (!std::isfinite(residual_z) || !std::isfinite(sd_z)) continue;
    track->residual_nm[2].push_back(residual_z);
    track->sd_nm[2].push_back(sd_z);
  }
}

/// How many frames each place is from the one before, by the ids; and by the camera's clock, where
/// it has a growing one: some cameras leave frames out without counting them. Arrivals do not tell
/// that: a busy computer takes frames late and several at once.
std::vector<std::uint64_t> Measurement::steps() const {
  std::vector<std::uint64_t> steps;
  std::vector<double> periods_ns;
  for (std::size_t k = 1; k < places_.size(); ++k) {
    const Place &before = places_[k - 1], &here = places_[k];
    steps.push_back(here.frame_id - before.frame_id);
    const double interval_ns =
        static_cast<double>(here.camera_ns) - static_cast<double>(before.camera_ns);
    periods_ns.push_back(interval_ns / static_cast<double>(steps.back()));
  }
  if (!has_clock()) return steps;
  const double usual_ns = usual_interval(periods_ns);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const double by_time = std::round(periods_ns[k] * static_cast<double>(steps[k]) / usual_ns);
    steps[k] = std::max(steps[k], static_cast<std::uint64_t>(std::min(by_time, kLongestGap)));
  }
  return steps;
}

bool Measurement::has_clock() const {
  for (std::size_t k = 1; k < places_.size(); ++k) {
    if (places_[k - 1].camera_ns <= 0 || places_[k].camera_ns <= places_[k - 1].camera_ns)
      return false;
  }
  return true;
}

/// From the first place to the last by the camera's clock: the first or the last frame may have
/// arrived late. Arrivals tell it where the camera has no clock, or one of other units.
double Measurement::seconds() const {
  const Place &first = places_.front(), &last = places_.back();
  const double by_arrival_s = 1e-9 * static_cast<double>(last.arrival_ns - first.arrival_ns);
  if (!has_clock()) return by_arrival_s;
  const double by_camera_s = 1e-9 * static_cast<double>(last.camera_ns - first.camera_ns);
  const bool agree = std::abs(by_camera_s - by_arrival_s) <= kMostClockError * by_camera_s;
  return agree ? by_camera_s : by_arrival_s;
}

MeasurementReport Measurement::report() const {
  if (places_.size() < kLeastFrames)
    throw std::runtime_error(fmt::format(
        "{} with a position came, and {} are needed: is there a camera, are markers found, "
        "and is the time long enough?",
        counted(places_.size(), "frame"), kLeastFrames));
  MeasurementReport report;
  report.state = state_;
  report.z_state = z_state_;
  const std::vector<std::uint64_t> steps = this->steps();
  const std::uint64_t intervals = std::accumulate(steps.begin(), steps.end(), std::uint64_t{0});
  report.seconds = seconds();
  if (!(report.seconds > 0)) throw std::runtime_error("the frames' arrival times do not grow");
  report.rate_hz = static_cast<double>(intervals) / report.seconds;
  report.frames = places_.size();
  report.missing_share =
      1 - static_cast<double>(places_.size()) / static_cast<double>(intervals + 1);
  if (report.missing_share > kMostMissing)
    throw std::runtime_error(fmt::format(
        "only {} of {} frames have a position: were markers lost, or was the camera away?",
        places_.size(), intervals + 1));
  for (std::size_t axis = 0; axis < 2; ++axis) {
    EvenPlaces places;
    std::vector<double> promised_nm;
    for (std::size_t k = 0; k < places_.size(); ++k) {
      promised_nm.push_back(places_[k].sd_nm[axis]);
      places.add(places_[k].nm[axis], k == 0 ? 1 : steps[k - 1]);
    }
    report.axes[axis] = analyse_axis(places.nm(), report.rate_hz);
    report.axes[axis].promised_noise_nm = median(std::move(promised_nm));
  }
  add_scatter(report);
  add_z(report, steps);
  return report;
}

/// z has a validity of its own: of the frames with a position some may lack it.
void Measurement::add_z(MeasurementReport& report, const std::vector<std::uint64_t>& steps) const {
  EvenPlaces places;
  std::vector<double> promised_nm;
  std::uint64_t step = 0;
  for (std::size_t k = 0; k < places_.size(); ++k) {
    step += k == 0 ? 1 : steps[k - 1];
    if (!std::isfinite(places_[k].z_nm) || !std::isfinite(places_[k].z_sd_nm)) continue;
    promised_nm.push_back(places_[k].z_sd_nm);
    places.add(places_[k].z_nm, std::exchange(step, 0));
  }
  const auto measured = static_cast<double>(promised_nm.size());
  report.z_missing_share = 1 - measured / static_cast<double>(places_.size());
  if (report.z_missing_share > kMostMissing || promised_nm.size() < kLeastFrames) return;
  report.z = analyse_axis(places.nm(), report.rate_hz);
  report.z->promised_noise_nm = median(std::move(promised_nm));
  add_scatter_z(report);
}

void Measurement::add_scatter_z(MeasurementReport& report) const {
  double weights = 0;
  for (std::size_t i = 0; i < report.markers.size(); ++i) {
    const std::vector<double>& residual = markers_[i].residual_nm[2];
    if (residual.empty()) continue;
    MarkerAxial z;
    z.fit_sd_nm = median(markers_[i].sd_nm[2]);
    z.scatter_nm = scatter(residual);
    z.wander_nm = wander(residual, z.scatter_nm);
    const double share =
        static_cast<double>(residual.size()) / static_cast<double>(marker_messages_);
    if (!report.markers[i].witness && z.fit_sd_nm > 0 && share > kOftenEnough)
      weights += 1 / (z.fit_sd_nm * z.fit_sd_nm);
    report.markers[i].z = z;
  }
  report.markers_allow_z_nm = weights > 0 ? 1 / std::sqrt(weights) : 0;
  for (MarkerReport& marker : report.markers) {
    if (!marker.z) continue;
    const double own = marker.z->fit_sd_nm * marker.z->fit_sd_nm;
    const double mean = report.markers_allow_z_nm * report.markers_allow_z_nm;
    marker.z->expected_nm = std::sqrt(std::max(0.0, marker.witness ? own + mean : own - mean));
  }
}

void Measurement::add_scatter(MeasurementReport& report) const {
  std::array<double, 2> weights{};
  for (const MarkerTrack& track : markers_) {
    MarkerReport marker;
    marker.id = track.id;
    marker.witness = track.witness;
    marker.good_share =
        static_cast<double>(track.residual_nm[0].size()) / static_cast<double>(marker_messages_);
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const double sd = marker.fit_sd_nm[axis] = median(track.sd_nm[axis]);
      marker.scatter_nm[axis] = scatter(track.residual_nm[axis]);
      if (!marker.witness && sd > 0 && marker.good_share > kOftenEnough)
        weights[axis] += 1 / (sd * sd);
    }
    report.markers.push_back(marker);
  }
  for (std::size_t axis = 0; axis < 2; ++axis)
    report.markers_allow_nm[axis] = weights[axis] > 0 ? 1 / std::sqrt(weights[axis]) : 0;
  for (std::size_t i = 0; i < report.markers.size(); ++i) {
    MarkerReport& marker = report.markers[i];
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::vector<double>& residual = markers_[i].residual_nm[axis];
      // Against the mean, of which a tracking marker is a part and a witness is none.
      const double own = marker.fit_sd_nm[axis] * marker.fit_sd_nm[axis];
      const double mean = report.markers_allow_nm[axis] * report.markers_allow_nm[axis];
      marker.expected_nm[axis] = std::sqrt(std::max(0.0, marker.witness ? own + mean : own - mean));
      marker.wander_nm[axis] = wander(residual, marker.scatter_nm[axis]);
    }
    marker.remark = remark_on(marker, markers_[i].residual_nm[0].size());
  }
}

}  // namespace driftd::clients
