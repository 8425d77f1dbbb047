// SPDX-License-Identifier: MIT
#include "base/process/realtime.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace driftd {
namespace {

std::string text_of(int error) {
  return std::generic_category().message(error);
}

}  // namespace

std::optional<std::string> keep_in_memory() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (geteuid() != 0 && limit.rlim_cur != RLIM_INFINITY) {
    return "memory is not locked: the limit is " + std::to_string(limit.rlim_cur) +
           " bytes; set LimitMEMLOCK=infinity (systemd) or memlock unlimited (limits.conf)";
  }
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return "memory is not locked: " + text_of(errno);
  return std::nullopt;
}

std::optional<std::string> schedule_this_thread(int priority, int cpu, const char* thread_name) {
  pthread_setname_np(pthread_self(), thread_name);
  std::string refused;
  if (cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<std::size_t>(cpu), &cpus);
    if (const int error = pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus); error != 0) {
      refused = std::string(thread_name) + ": not pinned to CPU " + std::to_string(cpu) + ": " +
                text_of(error);
    }
  }
  sched_param parameters{};
  parameters.sched_priority = priority;
  if (const int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
      error != 0) {
    if (!refused.empty()) refused += "; ";
    refused += std::string(thread_name) + ": no SCHED_FIFO priority " + std::to_string(priority) +
               ": " + text_of(error) + "; set LimitRTPRIO (systemd) or rtprio (limits.conf)";
  }
  if (refused.empty()) return std::nullopt;
  return refused;
}

void schedule_as_ordinary(const char* thread_name) noexcept {
  pthread_setname_np(pthread_self(), thread_name);
  int policy = SCHED_OTHER;
  sched_param parameters{};
  pthread_getschedparam(pthread_self(), &policy, &parameters);
  if (policy != SCHED_FIFO && policy != SCHED_RR) return;
  parameters.sched_priority = 0;
  pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameters);
}

ScheduledMeanwhile::ScheduledMeanwhile(int priority) noexcept {
  sched_param meanwhile{};
  meanwhile.sched_priority = priority;
  changed_ = pthread_getschedparam(pthread_self(), &policy_, &before_) == 0 &&
             pthread_setschedparam(pthread_self(), SCHED_FIFO, &meanwhile) == 0;
}

ScheduledMeanwhile::~ScheduledMeanwhile() {
  if (changed_) pthread_setschedparam(pthread_self(), policy_, &before_);
}

}  // namespace driftd
