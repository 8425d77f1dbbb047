// SPDX-License-Identifier: MIT
// The parts that work on frames and the threads they run on: source, fitter, tracking loop,
// publisher. Made, started and stopped by the service on the main thread; housekeeping talks to the
// loop through ports().
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "camera/frame_source.hpp"
#include "config/config.hpp"
#include "daemon/loop/publisher.hpp"
#include "daemon/loop/tracking_loop.hpp"
#include "daemon/setup/fitter_choice.hpp"
#include "daemon/setup/realtime_set_up.hpp"
#include "daemon/wire/wire_context.hpp"

namespace driftd::daemon {

class Pipeline {
 public:
  /// Binds the publisher's socket and composes the source, where none is given; starts nothing yet.
  /// @throws SocketError, RealTimeError, camera::CameraError
  Pipeline(WireContext& wire, const config::Config& config, const std::string& session,
           std::unique_ptr<camera::FrameSource> source = nullptr);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// The camera, then a fitter for what it sends, then the publisher.
  /// @throws camera::CameraError, fitter::FitterError, config::ConfigError
  void start(const config::Config& config);
  void start_loop();
  /// Idempotent; nothing leaves afterwards.
  void stop() noexcept;

  camera::FrameSource& source() noexcept { return *source_; }
  Publisher& publisher() noexcept { return publisher_; }
  LoopPorts& ports() noexcept { return ports_; }
  RealTimeSetUp& realtime() noexcept { return realtime_; }
  /// From start() on. Whoever finds markers that want another replaces it.
  ChosenFitter& chosen() noexcept { return chosen_; }

 private:
  Publisher publisher_;
  RealTimeSetUp realtime_;
  std::unique_ptr<camera::FrameSource> source_;
  ChosenFitter chosen_;
  std::shared_ptr<fitter::LiveFitter> first_fitter_;  ///< the loop's own
  LoopPorts ports_;
  std::unique_ptr<ObserverWorker> observer_, z_observer_;
  bool measures_z_ = false;
  std::unique_ptr<TrackingLoop> loop_;
  std::thread loop_thread_;
};

}  // namespace driftd::daemon
