// SPDX-License-Identifier: MIT
#include "tests/virtual/lab.hpp"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "config/local_sockets.hpp"
#include "simulator/device_clock.hpp"
#include "simulator/device_registers.hpp"
#include "tests/virtual/sent_messages.hpp"

namespace driftd::virtual_time {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::array<std::string_view, 2> kTopics = {"correction ", "axial "};
constexpr std::int64_t kReadoutNs = 300'000;  ///< end of the exposure to the frame's arrival
/// The frame's arrival to the correction's at the stage.
constexpr std::int64_t kReactionNs = 200'000;
constexpr std::int64_t kTurnNs = 4 * kMs;  ///< of housekeeping
constexpr std::int64_t kPopNs = 5 * kMs;   ///< the loop waits so long for a frame
constexpr std::int64_t kConnectNs = 300 * kMs;
constexpr std::int64_t kStallPeriods = 4;  ///< of the camera, at least, before it counts as away
constexpr std::int64_t kAskClockNs = 250 * kMs;  ///< between two readings of the camera's clock
constexpr std::int64_t kAnswerNs = 100'000;      ///< from a question to the camera to its answer

void wait_a_moment() {
  poll(nullptr, 0, 1);
}

}  // namespace

Lab::Lab(VirtualTime& time, const simulator::Scenario& scenario, double rate_hz)
    : time_(time),
      scenario_(scenario),
      rate_hz_(rate_hz),
      simulation_(scenario, [this](const simulator::TruthRecord& record) {
        messages_.push_back(simulator::truth_message(record, truths_++));
      }) {
  sensor_.width_px = scenario.camera.width_px;
  sensor_.height_px = scenario.camera.height_px;
  sensor_.exposure_us = scenario.camera.exposure_us;
  period_ns_ = std::llround(1e9 / rate_hz_);
  exposure_ns_ = time_.now_ns() + period_ns_;
}

Lab::~Lab() {
  if (service_) stop_daemon();
}

void Lab::start_daemon(const std::filesystem::path& file) {
  config_ = config::load(file);
  const config::Camera& wanted = config_.camera;
  if (wanted.region_width_px != 0 || wanted.region_height_px != 0)
    throw std::invalid_argument("camera.region_*: the virtual camera shows its whole sensor");
  sensor_.format = wanted.pixel_format;
  sensor_.exposure_us = wanted.exposure_us > 0 ? wanted.exposure_us : scenario_.camera.exposure_us;
  const double rate_hz = wanted.frame_rate_hz > 0 ? wanted.frame_rate_hz : rate_hz_;
  period_ns_ = std::llround(1e9 / rate_hz);
  camera::SourceInfo info;
  info.description = "driftd virtual camera";
  info.format = sensor_.format;
  info.width_px = sensor_.width_px;
  info.height_px = sensor_.height_px;
  info.exposure_us = sensor_.exposure_us;
  info.frame_rate_hz = rate_hz;
  info.rate_can_change = wanted.frame_rate_hz > 0;
  // As driftd-sim's.
  info.exposure_range_us = {.lowest = 10, .highest = 1e6};
  info.gain_range_db = {.lowest = 0, .highest = simulator::kMaxGainDb};
  info.gain_db = sensor_.gain_db = std::clamp(wanted.gain_db, 0.0, simulator::kMaxGainDb);
  const int bits = std::min(scenario_.camera.bit_depth, camera::bits_per_pixel(sensor_.format));
  info.largest_adu = (1 << bits) - 1;
  auto camera = std::make_unique<VirtualCamera>(std::move(info));
  camera_ = camera.get();
  service_ = std::make_unique<daemon::Housekeeping>(config_, file, std::move(camera));
  time_.sleep_again();
  try {
    service_->start();
  } catch (...) {
    time_.wake_all();
    service_.reset();
    camera_ = nullptr;
    throw;
  }
  waiting_ = {};
  // The threads that the observers learn by.
  time_.await_sleepers(config_.axial.method == control::AxialMethod::None ? 1 : 2);
  const int newest_only = 1;  // of subscriptions, too: a socket for each topic
  const std::filesystem::path folder = config::runtime_directories().front();
  for (const std::string_view topic : kTopics) {
    void* driver = drivers_.emplace_back(zmq_socket(context_.get(), ZMQ_SUB), zmq_close).get();
    zmq_setsockopt(driver, ZMQ_CONFLATE, &newest_only, sizeof newest_only);
    zmq_setsockopt(driver, ZMQ_SUBSCRIBE, topic.data(), topic.size());
    for (const std::string& endpoint : config_.wire.corrections)
      zmq_connect(driver, config::endpoint_in(folder, endpoint).c_str());
  }
  const daemon::Publisher& publisher = service_->publisher();
  const auto is_heard = [&] {
    return publisher.has_driver() && publisher.has_driver(daemon::AxisGroup::Axial);
  };
  for (int tries = 0; !is_heard(); ++tries) {
    if (tries > 60'000) throw std::runtime_error("the corrections' socket sees no subscriber");
    turn();
    wait_a_moment();
  }
  turn_ns_ = popped_ns_ = frame_ns_ = time_.now_ns();
  found_ns_ = 0;
}

void Lab::stop_daemon() {
  end_daemon(true);
}

void Lab::kill_daemon() {
  end_daemon(false);
}

void Lab::end_daemon(bool in_order) {
  if (!service_) throw std::invalid_argument("no daemon runs");
  if (in_order) {
    service_->bring_back();
    for (const std::int64_t end_ns = time_.now_ns() + daemon::Housekeeping::kMostWayBackNs;
         service_->is_coming_back() && time_.now_ns() < end_ns;)
      advance(kTurnNs);
  }
  camera_->release();
  release_corrections();
  time_.wake_all();
  if (in_order) service_->finish();
  drivers_.clear();
  service_.reset();
  camera_ = nullptr;
  coming_.clear();
  obey_corrections();
}

void Lab::reload_daemon() {
  if (!service_) throw std::invalid_argument("no daemon runs");
  service_->reload();
  settle();
}

void Lab::advance(std::int64_t duration_ns) {
  const std::int64_t end_ns = time_.now_ns() + duration_ns;
  for (std::int64_t next_ns = next_event_ns(); next_ns <= end_ns; next_ns = next_event_ns()) {
    time_.pass_until(next_ns);
    const std::int64_t now_ns = time_.now_ns();
    if (exposure_end_ns() <= now_ns) expose();
    if (!service_) continue;
    if (release_ns_ != 0 && release_ns_ <= now_ns) {
      release_corrections();
      settle();
    }
    if (driver_free_ns_ <= now_ns) obey_waiting();
    watch_cable();
    if (!coming_.empty() && coming_.front().arrival_ns <= now_ns) {
      deliver();
    } else if (popped_ns_ + kPopNs <= now_ns) {
      popped_ns_ = now_ns;
      camera_->give(camera_->connected() ? camera::PopStatus::Timeout
                                         : camera::PopStatus::Disconnected);
      settle();
    }
    if (turn_ns_ <= now_ns) {
      turn_ns_ = now_ns + kTurnNs;
      turn();
    }
  }
  time_.pass_until(end_ns);
  rest();
}

/// Housekeeping is through with all that has happened, so that it does not matter how many turns
/// there are before the next command.
void Lab::rest() {
  if (!service_) return;
  for (int i = 0; i < 3; ++i) turn_service(-1);
}

void Lab::serve() {
  if (!service_) return wait_a_moment();
  const std::uint64_t replies = sent_replies();
  turn_service(1);
  if (service_->is_asked()) advance(std::min(period_ns_, kPopNs));
  commands_wait_ = true;
  advance(time_of_command_ns_ * static_cast<std::int64_t>(sent_replies() - replies));
  commands_wait_ = false;
}

std::string Lab::command_simulator(const std::string& request) {
  return simulator::answer_command(request, simulation_, {}, {});
}

std::int64_t Lab::exposure_end_ns() const noexcept {
  return exposure_ns_ + std::llround(1e3 * sensor_.exposure_us);
}

std::int64_t Lab::next_event_ns() const noexcept {
  std::int64_t next_ns = exposure_end_ns();
  if (!service_) return next_ns;
  if (!coming_.empty()) next_ns = std::min(next_ns, coming_.front().arrival_ns);
  if (release_ns_ != 0) next_ns = std::min(next_ns, release_ns_);
  if (waiting_ != decltype(waiting_){}) next_ns = std::min(next_ns, driver_free_ns_);
  return std::min({next_ns, popped_ns_ + kPopNs, turn_ns_});
}

void Lab::expose() {
  const std::int64_t begin_ns = exposure_ns_;
  if (service_) {
    const camera::SourceInfo info = camera_->info();
    sensor_.exposure_us = info.exposure_us;
    sensor_.gain_db = info.gain_db;
  }
  const double slowness = service_ ? camera_->slowness() : 0;
  exposure_ns_ += std::max(std::llround(static_cast<double>(period_ns_) * (1 + slowness)),
                           std::llround(1e3 * sensor_.exposure_us));
  const bool streaming = service_ && camera_->connected() && !simulation_.camera_away();
  simulator::FramePlan plan{.sensor = sensor_, .start_ns = begin_ns, .frame_count = frame_count_};
  plan.camera_time_ns = camera_time_ns(begin_ns);
  if (!streaming) {
    simulation_.make(plan, {});
    return;
  }
  plan.frame_id = static_cast<std::uint16_t>(++frame_id_);
  plan.frame_count = ++frame_count_;
  plan.line1_high = camera_->in_lock();
  std::vector<std::byte> image(simulator::packed_bytes(sensor_.format, sensor_.pixels()));
  const simulator::MadeFrame made = simulation_.make(plan, image);
  frame_ns_ = time_.now_ns();
  if (made.fate != simulator::FrameFate::Send)
    return camera_->count_lost(made.fate == simulator::FrameFate::Corrupt);
  keep_frame(plan, made, std::move(image));
}

/// What its clock shows; 0: it shows nothing.
std::int64_t Lab::camera_time_ns(std::int64_t time_ns) {
  const auto error_ns = simulation_.clock_error_ns(time_ns);
  if (!error_ns) return 0;
  return simulator::whole_ticks_ns(time_ns + scenario_.camera.clock_offset_ns + *error_ns,
                                   scenario_.camera.dialect.tick_hz);
}

/// As the Aravis source does, where the loop wants to know its rate.
void Lab::ask_clock() {
  const std::int64_t now_ns = time_.now_ns();
  if (!camera_->connected() || !camera_->wants_clock() || now_ns < clock_asked_ns_ + kAskClockNs)
    return;
  clock_asked_ns_ = now_ns;
  const std::int64_t camera_ns = camera_time_ns(now_ns);
  if (camera_ns == 0) return;
  camera_->tell_clock({.camera_ns = static_cast<double>(camera_ns),
                       .asked_ns = now_ns - kAnswerNs / 2,
                       .answered_ns = now_ns + kAnswerNs / 2});
}

/// Frames arrive in the order in which they were taken.
void Lab::keep_frame(const simulator::FramePlan& plan, const simulator::MadeFrame& made,
                     std::vector<std::byte> image) {
  std::int64_t arrival_ns = time_.now_ns() + kReadoutNs + made.delivery_delay_ns;
  if (!coming_.empty()) arrival_ns = std::max(arrival_ns, coming_.back().arrival_ns);
  coming_.push_back(
      {.image = std::move(image),
       .id = frame_id_,
       .camera_time_ns = plan.camera_time_ns == 0 ? 0 : plan.camera_time_ns + made.time_error_ns,
       .arrival_ns = arrival_ns});
}

/// The cable out and in again, as the Aravis source sees it: no frames, after a while.
void Lab::watch_cable() {
  const std::int64_t now_ns = time_.now_ns();
  const bool away = simulation_.camera_away();
  if (camera_->connected()) {
    if (away && now_ns - frame_ns_ >
                    std::max(kMs * config_.camera.stall_timeout_ms, kStallPeriods * period_ns_)) {
      camera_->disconnect("no frames");
      coming_.clear();
      found_ns_ = 0;
    }
  } else if (!away && found_ns_ == 0) {
    found_ns_ = now_ns + kConnectNs;
  } else if (!away && now_ns >= found_ns_) {
    camera_->connect();
    frame_ns_ = now_ns;
  }
}

/// The newest of the frames that have come; the correction that follows reaches the stage a little
/// later.
void Lab::deliver() {
  const std::int64_t now_ns = time_.now_ns();
  while (coming_.size() > 1 && coming_[1].arrival_ns <= now_ns) coming_.pop_front();
  const Coming& newest = coming_.front();
  shown_ = newest.image;
  const camera::Frame frame{.pixels = shown_.data(),
                            .format = sensor_.format,
                            .width_px = sensor_.width_px,
                            .height_px = sensor_.height_px,
                            .id = newest.id,
                            .camera_time_ns = newest.camera_time_ns,
                            .arrival_ns = newest.arrival_ns};
  coming_.pop_front();
  popped_ns_ = now_ns;
  camera_->give(camera::PopStatus::Frame, frame);
  settle();
}

void Lab::turn() {
  ask_clock();
  turn_service(commands_wait_ ? -1 : 0);
}

/// What housekeeping has other threads calculate is waited for: it takes no time of the world.
void Lab::turn_service(int patience_ms) {
  service_->turn(patience_ms);
  while (service_->is_calculating()) {
    wait_a_moment();
    service_->turn(std::min(patience_ms, 0));
  }
  settle();
}

void Lab::hold_corrections(std::int64_t duration_ns) {
  if (!service_) throw std::invalid_argument("no daemon runs");
  settle();
  release_ns_ = time_.now_ns() + duration_ns;
  virtual_time::hold_corrections(true);
}

void Lab::release_corrections() {
  release_ns_ = 0;
  virtual_time::hold_corrections(false);
}

/// Until the publisher has sent what it was given.
void Lab::settle() {
  while (release_ns_ == 0 && !service_->publisher().settled()) std::this_thread::yield();
  obey_corrections();
}

void Lab::obey_corrections() {
  for (std::string& message : take_sent_messages()) {
    for (std::size_t i = 0; i < kTopics.size(); ++i) {
      if (!message.starts_with(kTopics[i])) continue;
      if (!waiting_[i].empty() && time_.now_ns() >= driver_free_ns_) obey_waiting();
      waiting_[i] = message;
    }
    messages_.push_back(std::move(message));
  }
  if (time_.now_ns() >= driver_free_ns_) obey_waiting();
}

/// What waits reaches the stage kReactionNs later, x, y and z of a frame in one move; what is due
/// in that time comes so much later, too.
void Lab::obey_waiting() {
  const auto [correction, axial] = std::exchange(waiting_, {});
  if (correction.empty() && axial.empty()) return;
  if (driver_period_ns_ > 0) driver_free_ns_ = time_.now_ns() + driver_period_ns_;
  time_.pass_until(time_.now_ns() + kReactionNs);
  using Outcome = simulator::CorrectionReader::Outcome;
  const std::int64_t now_ns = time_.now_ns();
  simulator::Vec2 target_nm{};
  if (corrections_.read(correction, now_ns, simulation_.commanded_nm(), target_nm) == Outcome::Move)
    simulation_.command_stage(target_nm);
  double target_z_nm = 0;
  if (corrections_.read_axial(axial, now_ns, simulation_.commanded_z_nm(), target_z_nm) ==
      Outcome::Move)
    simulation_.command_focus(target_z_nm);
}

}  // namespace driftd::virtual_time
