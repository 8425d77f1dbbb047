// SPDX-License-Identifier: MIT
// What the daemon's thread for the observer does (daemon/loop/observer_worker.hpp), in virtual
// time: what it finds comes as late as from a thread of its own. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "control/law/observer/observer_tuner.hpp"
#include "control/lock/supervisor.hpp"

namespace driftd::test {

class VirtualTuner {
 public:
  /// Before Supervisor::decide().
  void give(control::Supervisor& supervisor, std::int64_t now_ns) {
    const control::ObserverSettings wish = supervisor.observer_wish();
    if (!wished_ || control::needs_other_plan(*wished_, wish)) {
      wished_ = wished_ ? control::next_wish(*wished_, wish) : wish;
      control::wish_of_tuner(tuner_, *wished_);
      if (tuner_) supervisor.law().offer(control::make_plan(*wished_));
    }
    for (auto& late : late_) {
      if (!late || late->due_ns > now_ns) continue;
      supervisor.law().offer(late->tuning);
      late.reset();
    }
    if (answer_ && answer_due_ns_ <= now_ns) {
      supervisor.hear(*answer_, now_ns);
      answer_.reset();
    }
  }
  /// After it.
  void take(const control::Supervisor& supervisor, std::int64_t now_ns) {
    if (const control::AcquaintanceFrame* seen = supervisor.to_get_acquainted()) {
      if (auto answer = desk_.take(*seen)) {
        answer_ = answer;
        answer_due_ns_ =
            now_ns + (answer->ask == control::AcquaintanceAsk::Find ? kFindNs : kGlimpseNs);
      }
    }
    const control::ObserverFrame* frame = supervisor.to_learn_from();
    if (!tuner_ || frame == nullptr) return;
    tuner_->take(*frame);
    for (std::size_t axis = 0; axis < control::kAxes; ++axis) {
      if (late_[axis] || !tuner_->is_due(axis)) continue;
      if (const auto tuning = tuner_->tune(axis)) late_[axis] = Late{now_ns + kWorkNs, *tuning};
    }
  }
  bool wants_slower_frames() const { return tuner_ && tuner_->wants_slower_frames(); }

 private:
  static constexpr std::int64_t kWorkNs = 50'000'000;
  static constexpr std::int64_t kGlimpseNs = 40'000'000, kFindNs = 300'000'000;
  struct Late {
    std::int64_t due_ns;
    control::Tuning tuning;
  };
  std::optional<control::ObserverSettings> wished_;
  std::optional<control::ObserverTuner> tuner_;
  std::array<std::optional<Late>, control::kAxes> late_;
  control::AcquaintanceDesk desk_;
  std::optional<control::AcquaintanceAnswer> answer_;
  std::int64_t answer_due_ns_ = 0;
};

}  // namespace driftd::test
