// SPDX-License-Identifier: MIT
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/process/latest_value.hpp"
#include "base/process/spsc_queue.hpp"
#include "daemon/loop/correction_gate.hpp"
#include "support/catch.hpp"

using driftd::LatestValue;
using driftd::SpscQueue;
using driftd::daemon::CorrectionGate;

TEST_CASE("SpscQueue holds its capacity, no more, in order") {
  SpscQueue<int> queue(3);
  REQUIRE(queue.empty());
  for (int i = 0; i < 3; ++i) REQUIRE(queue.push(i));
  REQUIRE(queue.full());
  REQUIRE_FALSE(queue.push(3));
  int value = -1;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(queue.pop(value));
    REQUIRE(value == i);
  }
  REQUIRE_FALSE(queue.pop(value));
}

TEST_CASE("SpscQueue leaves a refused value with its owner") {
  SpscQueue<std::unique_ptr<int>> queue(1);
  REQUIRE(queue.push(std::make_unique<int>(1)));
  auto refused = std::make_unique<int>(2);
  const bool taken = queue.push(std::move(refused));
  REQUIRE_FALSE(taken);
  REQUIRE(refused != nullptr);  // NOLINT(bugprone-use-after-move): that is the contract
}

namespace {

/// Does something while it is being moved.
struct Probe {
  Probe() = default;
  explicit Probe(std::function<void()> action) : when_moved(std::move(action)) {}
  Probe(Probe&& other) noexcept : when_moved(std::move(other.when_moved)) {}
  Probe& operator=(Probe&& other) noexcept {
    if (other.when_moved) other.when_moved();
    return *this;
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe() = default;
  std::function<void()> when_moved;
};

}  // namespace

TEST_CASE("SpscQueue offers a value when it is there, and its room when it is gone") {
  SpscQueue<Probe> queue(1);
  bool was_empty = false;
  REQUIRE(queue.push(Probe([&] { was_empty = queue.empty(); })));
  CHECK(was_empty);
  CHECK_FALSE(queue.empty());

  struct Watched {
    std::function<void()> when_read;
    Watched() = default;
    explicit Watched(std::function<void()> action) : when_read(std::move(action)) {}
    Watched(Watched&&) noexcept = default;
    Watched& operator=(Watched&& other) noexcept {
      if (reading && other.when_read) other.when_read();
      when_read = std::move(other.when_read);
      return *this;
    }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    ~Watched() = default;
    bool reading = false;
  };
  SpscQueue<Watched> read(1);
  bool was_full = false;
  REQUIRE(read.push(Watched([&] { was_full = read.full(); })));
  Watched value;
  value.reading = true;
  REQUIRE(read.pop(value));
  CHECK(was_full);
  CHECK_FALSE(read.full());
}

TEST_CASE("SpscQueue passes every value between two threads once and in order") {
  constexpr int kCount = 20'000;  // on a busy machine each hand-over waits for the scheduler
  SpscQueue<int> queue(7);
  std::thread producer([&] {
    for (int i = 0; i < kCount; ++i) {
      while (!queue.push(i)) std::this_thread::yield();
    }
  });
  int wrong = 0;
  for (int expected = 0; expected < kCount; ++expected) {
    int value = -1;
    while (!queue.pop(value)) std::this_thread::yield();
    wrong += value != expected ? 1 : 0;
  }
  producer.join();
  REQUIRE(wrong == 0);
}

TEST_CASE("LatestValue never shows a torn or an older value") {
  struct Pair {
    std::uint64_t first = 0;
    std::uint64_t padding[30] = {};
    std::uint64_t last = 0;
  };
  constexpr std::uint64_t kCount = 200'000;
  LatestValue<Pair> latest;
  REQUIRE_FALSE(latest.refresh());
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kCount; ++i) {
      latest.writing().first = i;
      latest.writing().last = i;
      latest.publish();
    }
  });
  std::uint64_t seen = 0;
  int torn = 0;
  int older = 0;
  while (seen < kCount) {
    if (!latest.refresh()) continue;
    const Pair& value = latest.reading();
    torn += value.first != value.last ? 1 : 0;
    older += value.first <= seen ? 1 : 0;
    seen = value.first;
  }
  writer.join();
  REQUIRE(torn == 0);
  REQUIRE(older == 0);
  REQUIRE_FALSE(latest.refresh());
}

TEST_CASE("LatestValue leaves what is being read alone, however much is written") {
  LatestValue<int> latest;
  for (int i = 1; i < 20; ++i) {
    latest.writing() = 10 * i;
    latest.publish();
    REQUIRE(latest.refresh());
    REQUIRE_FALSE(latest.refresh());
    for (int later = 1; later <= 1 + i % 3; ++later) {
      latest.writing() = 10 * i + later;
      REQUIRE(latest.reading() == 10 * i);
      latest.publish();
      REQUIRE(latest.reading() == 10 * i);
    }
    latest.writing() = -1;  // not published
    REQUIRE(latest.reading() == 10 * i);
    REQUIRE(latest.refresh());
    REQUIRE(latest.reading() == 10 * i + 1 + i % 3);
  }
}

TEST_CASE("CorrectionGate lets nothing pass after close() has returned") {
  CorrectionGate gate;
  std::atomic<bool> closed{false};
  std::atomic<bool> stop{false};
  std::atomic<int> late{0};
  std::atomic<std::uint64_t> passed{0};
  std::thread sender([&] {
    while (!stop) {
      gate.pass(7, [&] {
        if (closed) ++late;
        ++passed;
        if (closed) ++late;
      });
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t before = passed;
    closed = false;
    gate.open(7);
    while (passed == before) std::this_thread::yield();
    gate.close();
    closed = true;
  }
  stop = true;
  sender.join();
  REQUIRE(late == 0);
}

TEST_CASE("CorrectionGate: close() waits for the correction that is being sent") {
  CorrectionGate gate;
  gate.open(3);
  std::atomic<bool> sending{false}, go_on{false}, closed{false};
  std::thread sender([&] {
    gate.pass(3, [&] {
      sending = true;
      while (!go_on) std::this_thread::yield();
    });
  });
  while (!sending) std::this_thread::yield();
  std::thread closer([&] {
    gate.close();
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // time enough for a close() in error
  CHECK_FALSE(closed);
  go_on = true;
  sender.join();
  closer.join();
  CHECK(closed);
}

TEST_CASE("CorrectionGate passes the lock it was opened for and no other") {
  CorrectionGate gate;
  int sent = 0;
  const auto send = [&] { ++sent; };
  REQUIRE_FALSE(gate.pass(0, send));
  REQUIRE_FALSE(gate.pass(1, send));
  gate.open(2);
  REQUIRE_FALSE(gate.pass(1, send));
  REQUIRE(gate.pass(2, send));
  gate.close();
  REQUIRE_FALSE(gate.pass(2, send));
  REQUIRE(sent == 1);
}
