// SPDX-License-Identifier: MIT
#include "daemon/loop/observer_worker.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>

#include "base/process/realtime.hpp"
#include "control/law/observer/observer_tuner.hpp"

namespace driftd::daemon {
namespace {

/// How often it looks: a new model may be that late.
constexpr auto kLook = std::chrono::milliseconds(10);
/// How often it foretells, in frames' time.
constexpr std::int64_t kForetellNs = 1'000'000'000;

/// What a turn needs of the turns before.
class Learner {
 public:
  explicit Learner(ObserverPorts& ports) : ports_(ports) {}

  void turn() {
    if (ports_.wish.refresh()) take_wish();
    control::AcquaintanceFrame seen;
    while (ports_.acquaintance.pop(seen))
      if (const auto answer = desk_.take(seen)) ports_.acquaintance_answers.push(*answer);
    // Before the frames: those that are slower come after it is known.
    if (tuner_) tuner_->see_camera(ports_.asked_slower.load(std::memory_order_acquire));
    control::ObserverFrame frame;
    while (ports_.frames.pop(frame)) {
      if (tuner_) tuner_->take(frame);
      epoch_ = frame.epoch;
      taken_ns_ = frame.taken_ns;
    }
    for (std::size_t axis = 0; tuner_ && axis < control::kAxes; ++axis) {
      if (!tuner_->is_due(axis)) continue;
      if (const auto tuning = tuner_->tune(axis)) ports_.tunings.push(*tuning);
    }
    const bool wants = tuner_ && tuner_->wants_slower_frames();
    ports_.slower_in_epoch.store(wants ? epoch_ : ObserverPorts::kNoEpoch,
                                 std::memory_order_relaxed);
    if (tuner_ && std::abs(taken_ns_ - foretold_ns_) > kForetellNs) foretell();
  }

 private:
  void foretell() {
    foretold_ns_ = taken_ns_;
    for (std::size_t axis = 0; axis < control::kAxes; ++axis)
      if (const auto residual = tuner_->forecast(axis))
        ports_.forecasts.push({.axis = axis, .epoch = epoch_, .residual = *residual});
  }

  void take_wish() {
    const control::ObserverSettings& wish = ports_.wish.reading();
    control::wish_of_tuner(tuner_, wish);
    if (tuner_ && !ports_.plans.push(control::make_plan(wish))) tuner_.reset();
  }

  ObserverPorts& ports_;
  std::optional<control::ObserverTuner> tuner_;
  control::AcquaintanceDesk desk_;
  std::uint32_t epoch_ = 0;
  std::int64_t taken_ns_ = 0, foretold_ns_ = 0;  ///< of the last frame; and when it foretold last
};

}  // namespace

ObserverWorker::ObserverWorker(ObserverPorts& ports)
    : ports_(ports), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void ObserverWorker::run(const std::stop_token& stop) {
  schedule_as_ordinary("driftd-observer");
  try {
    Learner learner(ports_);
    while (!stop.stop_requested()) {
      learner.turn();
      std::this_thread::sleep_for(kLook);
    }
  } catch (const std::exception& error) {  // no memory: the lock goes on with what was learnt
    ports_.slower_in_epoch.store(ObserverPorts::kNoEpoch, std::memory_order_relaxed);
    spdlog::error("the observer learns no more: {}", error.what());
  }
}

}  // namespace driftd::daemon
