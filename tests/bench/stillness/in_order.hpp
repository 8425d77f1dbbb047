// SPDX-License-Identifier: MIT
// Flights on several threads, told in the order of their numbers as they come.
#pragma once

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace driftd::stillness {

/// make(i) for i = 0 .. count - 1 on `jobs` threads, which share nothing; take(its result) in the
/// order of i, in the caller's thread. What make() throws comes from here, after the others end.
template <typename Make, typename Take>
void in_order(int count, int jobs, const Make& make, const Take& take) {
  using Result = decltype(make(0));
  std::vector<std::promise<Result>> made(static_cast<std::size_t>(count));
  std::atomic<int> next = 0;
  const auto work = [&] {
    for (int i = next++; i < count; i = next++) {
      std::promise<Result>& promise = made[static_cast<std::size_t>(i)];
      try {
        promise.set_value(make(i));
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < jobs; ++i) threads.emplace_back(work);
  for (std::promise<Result>& promise : made) take(promise.get_future().get());
}

}  // namespace driftd::stillness
