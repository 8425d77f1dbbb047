// SPDX-License-Identifier: MIT
#include "daemon/recorder/leavable_thread.hpp"

#include <utility>

#include "base/process/realtime.hpp"

namespace driftd::daemon {

LeavableThread::LeavableThread(const char* name, std::function<void()> work) {
  std::promise<void> end;
  ended_ = end.get_future();
  thread_ = std::thread([name, work = std::move(work), end = std::move(end)]() mutable {
    schedule_as_ordinary(name);
    work();
    end.set_value();
  });
}

bool LeavableThread::join_or_leave(std::chrono::milliseconds patience) noexcept {
  if (!thread_.joinable()) return true;
  const bool ended = ended_.wait_for(patience) == std::future_status::ready;
  if (ended)
    thread_.join();
  else
    thread_.detach();
  return ended;
}

}  // namespace driftd::daemon
