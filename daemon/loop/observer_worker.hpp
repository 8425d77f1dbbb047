// SPDX-License-Identifier: MIT
// The thread on which the lock's observer learns. It makes a plan for the stage and frame rate that
// the loop wishes, takes every frame that the observer saw, and gives back better models; before
// that it finds out what a lock's first moves tell of the stage. It may
// take as long as it likes, or stop: the lock goes on with what it has. Owned by the pipeline; it
// talks to the loop through ObserverPorts only.
#pragma once

#include <atomic>
#include <thread>

#include "base/process/latest_value.hpp"
#include "base/process/spsc_queue.hpp"
#include "control/law/observer/observer.hpp"
#include "control/law/observer/residual_forecast.hpp"
#include "control/lock/acquaintance.hpp"

namespace driftd::daemon {

/// How still an axis will be, foretold from frames of one Observer::epoch().
struct Foretold {
  std::size_t axis = 0;
  std::uint32_t epoch = 0;
  control::ResidualForecast residual;
};

struct ObserverPorts {
  /// Loop -> worker: what the observer needs a plan for; period_s 0: none is wanted.
  LatestValue<control::ObserverSettings> wish;
  SpscQueue<control::ObserverFrame> frames{4096};                  ///< loop -> worker
  SpscQueue<control::ObserverPlan> plans{4};                       ///< worker -> loop
  SpscQueue<control::Tuning> tunings{8};                           ///< worker -> loop
  SpscQueue<Foretold> forecasts{8};                                ///< worker -> loop
  SpscQueue<control::AcquaintanceFrame> acquaintance{4096};        ///< loop -> worker
  SpscQueue<control::AcquaintanceAnswer> acquaintance_answers{8};  ///< worker -> loop
  /// Worker -> loop: an Observer::epoch(), in whose lock the camera is to send its frames later by
  /// control::kSlowerShare; none: it is not to.
  std::atomic<std::int64_t> slower_in_epoch{kNoEpoch};
  static constexpr std::int64_t kNoEpoch = -1;
  /// Loop -> worker: the camera is asked to, for whatever lock. Before the frames that come of it.
  std::atomic<bool> asked_slower{false};
  /// Frames that the worker had no room for.
  std::atomic<std::uint64_t> not_learnt{0};
};

class ObserverWorker {
 public:
  explicit ObserverWorker(ObserverPorts& ports);
  ObserverWorker(const ObserverWorker&) = delete;
  ObserverWorker& operator=(const ObserverWorker&) = delete;

 private:
  void run(const std::stop_token& stop);

  ObserverPorts& ports_;
  std::jthread thread_;
};

}  // namespace driftd::daemon
