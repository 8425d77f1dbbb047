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
/// From the first correction of a frame to the last: they are sent in a row.
constexpr std::int64_t kTogether_ns = 300'000;

int checked(int descriptor, const char* what) {
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), what);
  return descriptor;
}

bool is_set(int event_fd) {
  std::uint64_t count = 0;
  return read(event_fd, &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

}  // namespace

PortThread::PortThread(Driver& driver, std::span<Board* const> boards, zmq::context_t& context,
                       const Config& config)
    : boards_(boards.begin(), boards.end()),
      stop_fd_(checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")),
      timer_fd_(checked(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd")) {
  std::promise<std::string> scheduling;
  std::future<std::string> scheduled = scheduling.get_future();
  thread_ = std::thread(
      [this, &driver, &context, realtime = config.realtime, groups = groups_of(config.motion.axes),
       endpoint = config.daemon.corrections, scheduling = std::move(scheduling)]() mutable {
        std::string refused;
        if (realtime.mode != config::RealTimeMode::Off) {
          refused = schedule_this_thread(realtime.priority, realtime.cpu, "stage").value_or("");
        }
        scheduling.set_value(std::move(refused));
        Sockets sockets;
        for (const Group group : groups) sockets.emplace_back(context, endpoint, group);
        run(driver, sockets);
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

void PortThread::run(Driver& driver, Sockets& sockets) const {
  std::vector<CorrectionSocket*> all;
  for (CorrectionSocket& socket : sockets) all.push_back(&socket);
  while (!is_set(stop_fd_)) {
    const std::int64_t due_ns = driver.turn();
    const std::int64_t now_ns = monotonic_ns();
    for (std::size_t i = 0; i < sockets.size(); ++i)
      sockets[i].look(boards_[i]->daemon_answers.load(), now_ns);
    const bool may_move = now_ns >= driver.next_move_ns();
    if (may_move) {
      if (const auto messages = newest(driver, sockets); !messages.empty()) {
        driver.corrections(messages);
        continue;
      }
    }
    const std::int64_t until_ns = std::min(due_ns, now_ns + kIdle_ns);
    if (may_move)
      wait(all, until_ns);
    else
      wait({}, std::min(until_ns, driver.next_move_ns()));
  }
}

/// What has come on any topic. The corrections of a frame come one after the other, and are to be
/// one move: those of the other topic are waited for, but not long.
std::vector<std::string> PortThread::newest(const Driver& driver, Sockets& sockets) const {
  std::vector<std::string> messages;
  std::vector<CorrectionSocket*> silent;
  for (CorrectionSocket& socket : sockets) {
    if (auto message = socket.newest())
      messages.push_back(*std::move(message));
    else
      silent.push_back(&socket);
  }
  if (messages.empty() || silent.empty() || !driver.follows_several()) return messages;
  wait(silent, monotonic_ns() + kTogether_ns);
  for (CorrectionSocket* const socket : silent)
    if (auto message = socket->newest()) messages.push_back(*std::move(message));
  return messages;
}

void PortThread::wait(std::span<CorrectionSocket* const> sockets, std::int64_t until_ns) const {
  const itimerspec at{.it_interval = {},
                      .it_value = to_timespec(std::max<std::int64_t>(until_ns, 1))};
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &at, nullptr);
  std::array<zmq_pollitem_t, 2 + kGroups> items = {
      {{nullptr, stop_fd_, ZMQ_POLLIN, 0}, {nullptr, timer_fd_, ZMQ_POLLIN, 0}}};
  int count = 2;
  for (CorrectionSocket* const socket : sockets)
    items[static_cast<std::size_t>(count++)] = {socket->handle(), 0, ZMQ_POLLIN, 0};
  zmq_poll(items.data(), count, -1);
}

}  // namespace driftd::stage
