// SPDX-License-Identifier: MIT
#include "daemon/recorder/recorder.hpp"

#include <pthread.h>

#include "daemon/recorder/record_writer.hpp"

namespace driftd::daemon {
namespace {

constexpr std::chrono::seconds kPatience{3};

}  // namespace

Recorder::Recorder(std::shared_ptr<RecordFeed> feed)
    : desk_(std::make_shared<RecorderDesk>(std::move(feed))) {
  thread_ = std::thread([desk = desk_] {
    pthread_setname_np(pthread_self(), "driftd-record");
    RecordWriter(*desk).run();
    desk->has_ended();
  });
}

Recorder::~Recorder() {
  quit();
}

bool Recorder::quit() noexcept {
  if (!thread_.joinable()) return true;
  desk_->quit();
  const bool ended = desk_->await_end(kPatience);
  if (ended)
    thread_.join();
  else
    thread_.detach();  // it holds all that it uses
  return ended;
}

}  // namespace driftd::daemon
