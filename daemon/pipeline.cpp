// SPDX-License-Identifier: MIT
#include "daemon/pipeline.hpp"

#include <string>
#include <utility>

#include "daemon/recorder/frame_keeper.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {

Pipeline::Pipeline(WireContext& wire, const config::Config& config, const std::string& session,
                   std::unique_ptr<camera::FrameSource> source)
    : publisher_(wire, {.endpoints = config.wire.publish,
                        .session = session,
                        .corrections = config.wire.corrections}),
      realtime_(config.realtime),
      source_(source ? std::move(source)
                     : make_source(config, [this] { realtime_.schedule_camera(); })) {
  ports_.record = std::make_shared<RecordFeed>(control::kMaxMarkers);
  publisher_.set_feed(ports_.record);
}

Pipeline::~Pipeline() {
  stop();
}

void Pipeline::start(const config::Config& config) {
  source_->start();
  const camera::SourceInfo info = source_->info();
  const std::string problem = image_too_small(config, info);
  if (!problem.empty()) throw camera::CameraError(info.description + ": " + problem);
  const bool connected = is_recording(config) || info.connection > 0;
  const auto format = connected ? info.format : configured_format(config);
  chosen_ = choose_fitter_for(with_range(config, info), format);
  first_fitter_ = chosen_.fitter;
  ports_.reflection = make_reflection_reader(with_range(config, info), format);
  ports_.raw_frames = make_frame_ring(config, info);
  measures_z_ = config.axial.method != control::AxialMethod::None && !is_recording(config);
  loop_ = std::make_unique<TrackingLoop>(*source_, *first_fitter_, publisher_, ports_,
                                         loop_settings(config, info), is_recording(config));
  publisher_.start([this] { realtime_.schedule_publisher(); }, [this] { source_->nudge(); });
}

void Pipeline::start_loop() {
  observer_ = std::make_unique<ObserverWorker>(ports_.observer);
  if (measures_z_) z_observer_ = std::make_unique<ObserverWorker>(ports_.z.observer);
  loop_thread_ = std::thread([this] {
    realtime_.schedule_loop();
    loop_->run();
  });
}

void Pipeline::stop() noexcept {
  for (const AxisGroup group : {AxisGroup::Lateral, AxisGroup::Axial})
    publisher_.gate(group).close();
  ports_.stop.store(true);
  if (loop_thread_.joinable()) loop_thread_.join();
  observer_.reset();
  z_observer_.reset();
  source_->stop();
  publisher_.stop();
}

}  // namespace driftd::daemon
