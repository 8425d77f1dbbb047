// SPDX-License-Identifier: MIT
#include "base/process/realtime.hpp"

#include <pthread.h>
#include <sched.h>

#include <iostream>
#include <thread>

#include "support/catch.hpp"

using driftd::ScheduledMeanwhile;

namespace {

struct Scheduling {
  int policy = -1;
  int priority = -1;
};

Scheduling of_this_thread() {
  Scheduling found;
  sched_param parameters{};
  REQUIRE(pthread_getschedparam(pthread_self(), &found.policy, &parameters) == 0);
  found.priority = parameters.sched_priority;
  return found;
}

/// The scheduling of a thread that is started now without a wish of its own, as libzmq starts its
/// threads.
Scheduling of_new_thread() {
  Scheduling found;
  std::thread([&found] {
    sched_param parameters{};
    pthread_getschedparam(pthread_self(), &found.policy, &parameters);
    found.priority = parameters.sched_priority;
  }).join();
  return found;
}

bool may_schedule() {
  bool may = false;
  std::thread([&may] {
    sched_param parameters{};
    parameters.sched_priority = 7;
    may = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
  }).join();
  return may;
}

}  // namespace

TEST_CASE("threads started meanwhile keep the priority, this one does not") {
  if (!may_schedule()) {
    std::cout << "SKIPPED: SCHED_FIFO is not allowed here\n";
    return;
  }
  const Scheduling before = of_this_thread();
  Scheduling meanwhile;
  {
    const ScheduledMeanwhile scheduled(7);
    meanwhile = of_new_thread();
  }
  CHECK(meanwhile.policy == SCHED_FIFO);
  CHECK(meanwhile.priority == 7);
  CHECK(of_this_thread().policy == before.policy);
  CHECK(of_this_thread().priority == before.priority);
  CHECK(of_new_thread().policy == before.policy);
}

TEST_CASE("a priority that is not allowed changes nothing") {
  const Scheduling before = of_this_thread();
  const ScheduledMeanwhile scheduled(1000);
  CHECK(of_this_thread().policy == before.policy);
  CHECK(of_new_thread().policy == before.policy);
}

TEST_CASE("a thread that is to be ordinary is so whatever it was started with") {
  if (!may_schedule()) {
    std::cout << "SKIPPED: SCHED_FIFO is not allowed here\n";
    return;
  }
  Scheduling found;
  {
    const ScheduledMeanwhile scheduled(7);
    std::thread([&found] {
      driftd::schedule_as_ordinary("ordinary");
      found = of_this_thread();
    }).join();
  }
  CHECK(found.policy == SCHED_OTHER);
  CHECK(found.priority == 0);
}
