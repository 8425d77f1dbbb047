// SPDX-License-Identifier: MIT
#include "base/process/stop_signal.hpp"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace driftd {

StopSignal::StopSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  const int failed = pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (failed != 0) throw std::system_error(failed, std::generic_category(), "pthread_sigmask");
  descriptor_ = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

StopSignal::~StopSignal() {
  close(descriptor_);
}

int StopSignal::count() noexcept {
  signalfd_siginfo info{};
  while (read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) ++count_;
  return count_;
}

}  // namespace driftd
