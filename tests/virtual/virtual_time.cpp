// SPDX-License-Identifier: MIT
#include "tests/virtual/virtual_time.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "base/monotonic.hpp"

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {
int __real_clock_gettime(clockid_t clock, timespec* time);
int __wrap_clock_gettime(clockid_t clock, timespec* time);
int __real_nanosleep(const timespec* how_long, timespec* left);
int __wrap_nanosleep(const timespec* how_long, timespec* left);
// std::condition_variable::wait(lock)
using WaitedLock = std::unique_lock<std::mutex>;
void __real__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable* self,
                                                                      WaitedLock& lock);
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable* self,
                                                                      WaitedLock& lock);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace driftd::virtual_time {
namespace {

constexpr std::int64_t kBeginNs = 1000 * kNanosecondsPerSecond;

struct Sleeper {
  std::int64_t until_ns;
  bool woken = false;
};

/// State of the process: the wrapped functions have no object.
struct State {
  std::atomic<std::int64_t> now_ns{0};  ///< 0: real time
  std::mutex mutex;                     ///< of what follows
  std::condition_variable changed;
  std::list<Sleeper> sleepers;
  std::size_t awake = 0;  ///< woken, and not asleep again
  bool restless = false;
  std::thread::id clock_thread;
};

State& state() {
  static State state;
  return state;
}

/// A thread that was woken counts until it sleeps again, waits for another thread, or ends.
struct Waking {
  bool counts = false;
  void over(State& of) {
    if (std::exchange(counts, false) && of.awake > 0) --of.awake;
    of.changed.notify_all();
  }
  ~Waking() {
    const std::lock_guard guard(state().mutex);
    over(state());
  }
};
thread_local Waking waking;

void sleep_virtually(std::int64_t duration_ns) {
  State& s = state();
  if (std::this_thread::get_id() == s.clock_thread) {
    s.now_ns += duration_ns;
    return;
  }
  std::unique_lock lock(s.mutex);
  waking.over(s);
  const auto self = s.sleepers.insert(s.sleepers.end(), {s.now_ns + duration_ns});
  s.changed.notify_all();
  s.changed.wait(lock, [&] { return self->woken || s.restless; });
  waking.counts = self->woken;
  s.sleepers.erase(self);
}

}  // namespace

VirtualTime::VirtualTime() {
  state().clock_thread = std::this_thread::get_id();
  state().now_ns = kBeginNs;
}

VirtualTime::~VirtualTime() {
  wake_all();
  state().now_ns = 0;
}

std::int64_t VirtualTime::now_ns() const noexcept {
  return state().now_ns;
}

void VirtualTime::pass_until(std::int64_t time_ns) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  for (;;) {
    const auto next = std::min_element(
        s.sleepers.begin(), s.sleepers.end(),
        [](const Sleeper& a, const Sleeper& b) { return a.until_ns < b.until_ns; });
    if (next == s.sleepers.end() || next->until_ns > time_ns) break;
    s.now_ns = std::max(s.now_ns.load(), next->until_ns);
    next->woken = true;
    ++s.awake;
    s.changed.notify_all();
    s.changed.wait(lock, [&] { return s.awake == 0; });
  }
  s.now_ns = std::max(s.now_ns.load(), time_ns);
}

void VirtualTime::await_sleepers(std::size_t count) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.sleepers.size() >= count; });
}

void VirtualTime::wake_all() {
  const std::lock_guard lock(state().mutex);
  state().restless = true;
  state().changed.notify_all();
}

void VirtualTime::sleep_again() {
  const std::lock_guard lock(state().mutex);
  state().restless = false;
  state().awake = 0;
}

}  // namespace driftd::virtual_time

int __wrap_clock_gettime(clockid_t clock, timespec* time) {
  const std::int64_t now_ns = driftd::virtual_time::state().now_ns;
  if (clock != CLOCK_MONOTONIC || now_ns == 0) return __real_clock_gettime(clock, time);
  *time = driftd::to_timespec(now_ns);
  return 0;
}

void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable* self,
                                                                      WaitedLock& lock) {
  using driftd::virtual_time::waking;
  if (waking.counts) {
    auto& state = driftd::virtual_time::state();
    const std::lock_guard guard(state.mutex);
    waking.over(state);
  }
  __real__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(self, lock);
}

int __wrap_nanosleep(const timespec* how_long, timespec* left) {
  if (driftd::virtual_time::state().now_ns == 0) return __real_nanosleep(how_long, left);
  driftd::virtual_time::sleep_virtually(how_long->tv_sec * driftd::kNanosecondsPerSecond +
                                        how_long->tv_nsec);
  return 0;
}
