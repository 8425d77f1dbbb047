// SPDX-License-Identifier: MIT
#include "base/process/stop_signal.hpp"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace driftd {

StopSignal::StopSignal(Hangup hangup) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (hangup == Hangup::Counted) sigaddset(&signals, SIGHUP);
  const int failed = pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (failed != 0) throw std::system_error(failed, std::generic_category(), "pthread_sigmask");
  descriptor_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

StopSignal::~StopSignal() {
  close(descriptor_);
}

void StopSignal::read_all() noexcept {
  signalfd_siginfo info{};
  while (read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP)
      hung_up_ = true;
    else
      ++count_;
  }
}

int StopSignal::count() noexcept {
  read_all();
  return count_;
}

bool StopSignal::hung_up() noexcept {
  read_all();
  return std::exchange(hung_up_, false);
}

}  // namespace driftd
