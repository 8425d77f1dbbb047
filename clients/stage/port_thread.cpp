// SPDX-License-Identifier: MIT
#include "clients/stage/port_thread.hpp"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <system_error>

#include "base/monotonic.hpp"
#include "base/process/realtime.hpp"

namespace driftd::stage {
namespace {

/// How often to look for a daemon and whether to end, if nothing else is due.
constexpr std::int64_t kIdle_ns = kNanosecondsPerSecond / 20;

int checked(int descriptor, const char* what) {
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), what);
  return descriptor;
}

bool is_set(int event_fd) {
  std::uint64_t count = 0;
  return read(event_fd, &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

}  // namespace

PortThread::PortThread(Driver& driver, const Board& board, zmq::context_t& context,
                       const Config& config)
    : stop_fd_(checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")),
      timer_fd_(checked(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd")) {
  std::promise<std::string> scheduling;
  std::future<std::string> scheduled = scheduling.get_future();
  thread_ = std::thread([this, &driver, &board, &context, realtime = config.realtime,
                         endpoint = config.daemon.corrections,
                         scheduling = std::move(scheduling)]() mutable {
    std::string refused;
    if (realtime.mode != config::RealTimeMode::Off) {
      refused = schedule_this_thread(realtime.priority, realtime.cpu, "stage").value_or("");
    }
    scheduling.set_value(std::move(refused));
    CorrectionSocket corrections(context, endpoint);
    run(driver, board, corrections);
  });
  refused_scheduling_ = scheduled.get();
}

PortThread::~PortThread() {
  const std::uint64_t one = 1;
  // An event counter that is not full takes it.
  [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof one);
  thread_.join();
  close(timer_fd_);
  close(stop_fd_);
}

void PortThread::run(Driver& driver, const Board& board, CorrectionSocket& corrections) const {
  while (!is_set(stop_fd_)) {
    const std::int64_t due_ns = driver.turn();
    const std::int64_t now_ns = monotonic_ns();
    corrections.look(board.daemon_answers.load(), now_ns);
    const bool may_move = now_ns >= driver.next_move_ns();
    if (may_move) {
      if (const auto message = corrections.newest()) {
        driver.correction(*message);
        continue;
      }
    }
    const std::int64_t until_ns = std::min(due_ns, now_ns + kIdle_ns);
    wait(may_move ? corrections.handle() : nullptr,
         may_move ? until_ns : std::min(until_ns, driver.next_move_ns()));
  }
}

void PortThread::wait(void* socket, std::int64_t until_ns) const {
  const itimerspec at{.it_interval = {},
                      .it_value = to_timespec(std::max<std::int64_t>(until_ns, 1))};
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &at, nullptr);
  std::array<zmq_pollitem_t, 3> items = {{{nullptr, stop_fd_, ZMQ_POLLIN, 0},
                                          {nullptr, timer_fd_, ZMQ_POLLIN, 0},
                                          {socket, 0, ZMQ_POLLIN, 0}}};
  zmq_poll(items.data(), socket == nullptr ? 2 : 3, -1);
}

}  // namespace driftd::stage
