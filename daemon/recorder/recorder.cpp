// SPDX-License-Identifier: MIT
#include "daemon/recorder/recorder.hpp"

#include "daemon/recorder/record_writer.hpp"

namespace driftd::daemon {

Recorder::Recorder(std::shared_ptr<RecordFeed> feed)
    : desk_(std::make_shared<RecorderDesk>(std::move(feed))),
      thread_("driftd-record", [desk = desk_] { RecordWriter(*desk).run(); }) {}

Recorder::~Recorder() {
  quit();
}

bool Recorder::quit() noexcept {
  desk_->quit();
  return thread_.join_or_leave();
}

}  // namespace driftd::daemon
