// SPDX-License-Identifier: MIT
#include "daemon/exposure.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <utility>

#include "daemon/orders/engaged_lock.hpp"
#include "daemon/setup/compose.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

/// A camera answers within milliseconds, or not for 2.5 s a question.
constexpr std::int64_t kAnswerNs = 6'000'000'000;
/// The frame that is being exposed, and one that is being read out, may be of before.
constexpr double kFramesOfBefore = 3;
/// A gain nearer to the configured one makes no other noise.
constexpr double kSameGainDb = 0.1;

void check_range(const char* what, const char* unit, const std::optional<double>& wanted,
                 const camera::SettableRange& range) {
  if (!wanted) return;
  if (!range.is_known())
    throw CommandRefused{Refusal::Refused,
                         fmt::format("this camera has no {} that can be set here", what)};
  if (!range.has(*wanted))
    throw CommandRefused{Refusal::Refused,
                         fmt::format("the camera's {} can be {:.6g} to {:.6g} {} now, not {:.6g}",
                                     what, range.lowest, range.highest, unit, *wanted)};
}

json range_json(const camera::SettableRange& range) {
  if (!range.is_known()) return nullptr;
  return {range.lowest, range.highest};
}

}  // namespace

void Exposure::check(const camera::ExposureOrder& order) const {
  if (is_recording(config_))
    throw CommandRefused{Refusal::Refused, "a recording was exposed long ago"};
  if (under_way_) throw CommandRefused{Refusal::Busy, "the exposure is being set already"};
  if (const auto lock = engaged_lock(loop_.report())) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("{} is `{}`: another exposure changes the noise of its markers and the "
                    "delay of its frames, so it is set while `idle` or `lost` (`{}` first)",
                    lock->name, lock->state, lock->unlock)};
  }
  if (orders_pending_()) throw CommandRefused{Refusal::Busy, "an order to the lock is under way"};
  if (markers_.find_pending()) throw CommandRefused{Refusal::Busy, "markers are being looked for"};
  if (!camera_.connected()) throw CameraWatch::away();
  if (const config::Camera& c = config_.camera; order.exposure_us && c.frame_rate_hz > 0 &&
                                                c.trigger != camera::Trigger::HardwareLine &&
                                                *order.exposure_us > 1e6 / c.frame_rate_hz) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("camera.frame_rate_hz {:.6g} leaves {:.6g} us a frame, less than {:.6g} us of "
                    "exposure: lower the one or the other",
                    c.frame_rate_hz, 1e6 / c.frame_rate_hz, *order.exposure_us)};
  }
  check_range("exposure time", "us", order.exposure_us, camera_.info().exposure_range_us);
  check_range("gain", "dB", order.gain_db, camera_.info().gain_range_db);
}

void Exposure::order(const camera::ExposureOrder& order, Answer answer, std::int64_t now_ns) {
  camera_.look();  // its limits depend on what else is set
  check(order);
  const std::uint64_t number = source_.order_exposure(order);
  if (number == 0)
    throw CommandRefused{Refusal::Refused, "these frames come from no camera that can be set"};
  markers_.set_exposure_changes(true);
  under_way_ = UnderWay{.stage = Stage::Ordered,
                        .number = number,
                        .answer = std::move(answer),
                        .until_ns = now_ns + kAnswerNs,
                        .frames_from_ns = 0,
                        .gain_changed = false,
                        .problem = {}};
}

void Exposure::turn(std::int64_t now_ns) {
  if (!under_way_) return;
  const bool late = now_ns > under_way_->until_ns;
  switch (under_way_->stage) {
    case Stage::Ordered:
      if (source_.info().exposure_order >= under_way_->number) return take(now_ns);
      if (late) despair();
      return;
    case Stage::Taken:
      if (loop_.report().frame_ns > under_way_->frames_from_ns) return renew_markers(now_ns);
      if (!camera_.connected()) return end(CameraWatch::away());
      if (late) end(CommandRefused{Refusal::NoFrame, "it is set, but no frame came with it"});
      return;
    case Stage::Markers:
      return;  // marker keeping is bounded
  }
}

/// Who asked waits no longer; nothing is locked until the camera has dealt with it.
void Exposure::despair() {
  if (!under_way_->answer) return;
  std::exchange(under_way_->answer, nullptr)(CommandRefused{
      Refusal::Timeout,
      "the camera has not answered: whether it takes the exposure shows once it does, and nothing "
      "is locked until then"});
}

/// The camera has dealt with it, in whatever way: frames are dated by what it has now.
void Exposure::take(std::int64_t now_ns) {
  const double before_us = camera_.info().exposure_us, before_db = camera_.info().gain_db;
  camera_.look();
  const camera::SourceInfo& info = camera_.info();
  loop_.change_settings(std::make_unique<LoopSettings>(loop_settings(config_, info)));
  const double rate_hz = info.frame_rate_hz > 0 ? info.frame_rate_hz : loop_.report().frame_rate_hz;
  const double period_us =
      std::max({info.exposure_us, before_us, rate_hz > 0 ? 1e6 / rate_hz : 0.0});
  was_ordered_ = true;
  under_way_->stage = Stage::Taken;
  under_way_->gain_changed =
      std::abs(info.gain_db - before_db) > 0;  // not of one that is not known
  under_way_->problem = info.exposure_problem;
  under_way_->frames_from_ns = now_ns + std::llround(1e3 * kFramesOfBefore * period_us);
  under_way_->until_ns =
      under_way_->frames_from_ns + CameraWatch::kLeastFrameLimitNs + std::llround(1e3 * period_us);
  const bool known = !std::isnan(info.gain_db);
  events_.raise(
      EventLog::Level::Info, "exposure_set",
      fmt::format("{:.6g} us{} by command (before: {:.6g} us{}){}", info.exposure_us,
                  known ? fmt::format(" at {:.4g} dB", info.gain_db) : "", before_us,
                  known ? fmt::format(" at {:.4g} dB", before_db) : "",
                  info.exposure_problem.empty() ? "" : "; " + info.exposure_problem),
      {{"exposure_us", info.exposure_us}, {"gain_db", number_or_null(info.gain_db, known)}});
}

/// Those in use look otherwise now.
void Exposure::renew_markers(std::int64_t now_ns) {
  under_way_->stage = Stage::Markers;
  markers_.set_exposure_changes(false);
  const auto renewed = [this](const Outcome& outcome) {
    if (!under_way_) return;
    const auto* refused = std::get_if<CommandRefused>(&outcome);
    if (refused == nullptr) return finish();
    if (refused->code == Refusal::Stopping) return end(outcome);
    tell_not_renewed(*refused);
  };
  try {
    if (!markers_.renew(under_way_->gain_changed, renewed, now_ns)) finish();
  } catch (const CommandRefused& refused) {
    tell_not_renewed(refused);
  }
}

/// They are as they were.
void Exposure::tell_not_renewed(const CommandRefused& why) {
  const std::string& problem = under_way_->problem;
  const std::string text = fmt::format(
      "{}, but the markers in use are those of before it ({}): `driftctl markers "
      "--find` looks for them anew",
      problem.empty() ? "it is set" : problem, why.text);
  const json exposure = now();
  events_.raise(EventLog::Level::Warning, "exposure_set", text,
                {{"exposure_us", exposure["exposure_us"]}, {"gain_db", exposure["gain_db"]}});
  end(CommandRefused{why.code, text, {{"exposure", exposure}}});
}

void Exposure::finish() {
  json reply = now();
  const std::string problem = under_way_->problem;
  if (!problem.empty())
    return end(CommandRefused{Refusal::Refused, problem, {{"exposure", reply}}});
  end(Reply{.fields = {{"exposure", reply}}});
}

void Exposure::end(const Outcome& outcome) {
  if (!under_way_) return;
  const Answer answer = std::move(under_way_->answer);
  if (under_way_->stage != Stage::Markers) markers_.set_exposure_changes(false);
  under_way_.reset();
  if (answer) answer(outcome);
}

std::string Exposure::lost_with(const config::Config& after) const {
  constexpr double kSameUs = 0.01;  // of it: cameras step by lines or clock ticks
  const camera::SourceInfo& info = camera_.info();
  const double wanted_us = after.camera.exposure_us, wanted_db = after.camera.gain_db;
  const bool same_us = std::abs(info.exposure_us - wanted_us) <= std::max(1.0, kSameUs * wanted_us);
  const bool same_db =
      std::isnan(info.gain_db) || std::abs(info.gain_db - wanted_db) <= kSameGainDb;
  if (!was_ordered_ || (same_us && same_db)) return {};
  std::string lost;
  if (!same_us)
    lost = fmt::format("the exposure of {:.6g} us, which is configured as {:.6g} us",
                       info.exposure_us, wanted_us);
  if (!same_db)
    lost += fmt::format("{}the gain of {:.4g} dB, which is configured as {:.4g} dB",
                        lost.empty() ? "" : ", and ", info.gain_db, wanted_db);
  return lost + " (`driftctl exposure --write` keeps it)";
}

/// Why the noise that is configured is that of another gain; "": it is not.
std::string Exposure::noise_warning() const {
  const double gain_db = camera_.info().gain_db;
  if (!(config_.camera.gain_e_per_adu > 0) || std::isnan(gain_db)) return {};
  if (std::abs(gain_db - config_.camera.gain_db) <= kSameGainDb) return {};
  return fmt::format(
      "camera.gain_e_per_adu, camera.offset_adu and camera.read_noise_e are for {:.4g} dB "
      "(camera.gain_db), and "
      "the gain is {:.4g} dB: uncertainties of fits are wrong until the camera is calibrated at it",
      config_.camera.gain_db, gain_db);
}

json Exposure::now() const {
  const camera::SourceInfo& info = camera_.info();
  const bool is_there = !is_recording(config_) && info.width_px > 0;
  return {{"exposure_us", number_or_null(info.exposure_us, is_there && info.exposure_us > 0)},
          {"gain_db", number_or_null(info.gain_db, is_there && !std::isnan(info.gain_db))},
          {"frame_rate_hz", number_or_null(info.frame_rate_hz, is_there && info.frame_rate_hz > 0)},
          {"exposure_range_us", range_json(info.exposure_range_us)},
          {"gain_range_db", range_json(info.gain_range_db)},
          {"configured_exposure_us", config_.camera.exposure_us},
          {"configured_gain_db", config_.camera.gain_db},
          {"warning", noise_warning()}};
}

}  // namespace driftd::daemon
