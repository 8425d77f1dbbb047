// SPDX-License-Identifier: MIT
// The small parts under the Aravis source: mailbox, frame ids, doorbell, probe.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "camera/aravis/gvcp_probe.hpp"
#include "camera/clock_rate.hpp"
#include "camera/doorbell.hpp"
#include "camera/frame_id.hpp"
#include "camera/newest_mailbox.hpp"
#include "support/catch.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;

namespace {

/// Answers every question on the control port of `address` with the request id that a test puts in.
class ScriptedCamera {
 public:
  explicit ScriptedCamera(const char* address) : socket_(socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in local{};
    local.sin_family = AF_INET;
    local.sin_port = htons(3956);  // the port of the GigE Vision standard
    inet_pton(AF_INET, address, &local.sin_addr);
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&local), sizeof(local)) == 0);
    const timeval wait{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  }
  ~ScriptedCamera() { close(socket_); }
  ScriptedCamera(const ScriptedCamera&) = delete;
  ScriptedCamera& operator=(const ScriptedCamera&) = delete;

  /// Takes one question. @returns its 8 bytes
  std::array<std::uint8_t, 8> answer(std::uint8_t id_high, std::uint8_t id_low) const {
    std::array<std::uint8_t, 8> question{};
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    recvfrom(socket_, question.data(), question.size(), 0, reinterpret_cast<sockaddr*>(&from),
             &size);
    const std::array<std::uint8_t, 8> reply{0, 0, 0x00, 0x03, 0, 0, id_high, id_low};
    sendto(socket_, reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    return question;
  }

 private:
  int socket_;
};

}  // namespace

TEST_CASE("the mailbox keeps the newest and gives every item back once") {
  int items[4] = {};
  NewestMailbox<int> mailbox;
  CHECK(mailbox.take(nullptr) == nullptr);
  CHECK(mailbox.publish(&items[0]).item == nullptr);
  const auto removed = mailbox.publish(&items[1]);  // 0 was never taken
  CHECK(removed.item == &items[0]);
  CHECK(removed.fresh);
  CHECK(mailbox.take(nullptr) == &items[1]);
  CHECK(mailbox.take(&items[1]) == nullptr);  // nothing fresh: 1 stays with the reader
  CHECK(mailbox.publish(&items[2]).item == nullptr);
  CHECK(mailbox.take(&items[1]) == &items[2]);
  const auto used = mailbox.publish(&items[3]);
  CHECK(used.item == &items[1]);
  CHECK_FALSE(used.fresh);
}

TEST_CASE("between two threads the mailbox neither loses nor doubles an item") {
  struct Item {
    std::uint64_t number = 0;
    std::atomic<bool> away{false};  ///< not the writer's now
  };
  constexpr std::uint64_t kRounds = 200'000;
  std::vector<Item> items(4);
  NewestMailbox<Item> mailbox;
  std::uint64_t superseded = 0;
  std::thread writer([&] {
    std::vector<Item*> free_items;
    for (Item& item : items) free_items.push_back(&item);
    for (std::uint64_t number = 1; number <= kRounds; ++number) {
      Item* item = free_items.back();  // at most two are away: never empty
      free_items.pop_back();
      item->number = number;
      item->away = true;
      const auto removed = mailbox.publish(item);
      if (removed.item != nullptr) {
        removed.item->away = false;
        free_items.push_back(removed.item);
      }
      if (removed.fresh) ++superseded;
    }
  });
  std::uint64_t taken = 0;
  std::uint64_t last = 0;
  bool ascending = true;
  bool of_the_reader = true;
  Item* lent = nullptr;
  while (last < kRounds) {
    if (Item* item = mailbox.take(lent)) {
      ascending = ascending && item->number > last;
      of_the_reader = of_the_reader && item->away;
      last = item->number;
      lent = item;
      ++taken;
    }
  }
  writer.join();
  CHECK(ascending);
  CHECK(of_the_reader);
  CHECK(taken + superseded == kRounds);
}

TEST_CASE("16-bit block ids wrap past 0") {
  FrameIdUnwrapper ids(false);
  CHECK(ids.next(65534).id == 65534);
  CHECK(ids.next(65535).id == 65535);
  const auto wrapped = ids.next(1);  // GigE Vision: 0 is no block id
  CHECK(wrapped.id == 65536);
  CHECK(wrapped.lost == 0);
  const auto gap = ids.next(5);
  CHECK(gap.id == 65540);
  CHECK(gap.lost == 3);
}

TEST_CASE("ids of a camera that counts zero wrap past it") {
  FrameIdUnwrapper ids(false);
  REQUIRE(ids.next(65534).id == 65534);
  REQUIRE(ids.next(65535).id == 65535);
  const auto zero = ids.next(0);
  CHECK(zero.id == 65536);
  CHECK(zero.lost == 0);
  CHECK(ids.next(1).id == 65537);
  for (std::uint64_t raw = 2; raw <= 65535; ++raw) REQUIRE(ids.next(raw).lost == 0);
  // From now on the round is known.
  const auto one = ids.next(1);
  CHECK(one.id == 2 * 65536 + 1);
  CHECK(one.lost == 1);
  FrameIdUnwrapper from_zero(false);
  CHECK(from_zero.next(0).id == 0);
  CHECK(from_zero.next(1).lost == 0);
}

TEST_CASE("frames lost across the wrap are counted") {
  FrameIdUnwrapper ids(false);
  ids.next(65530);
  const auto next = ids.next(3);  // 65531..65535, 1, 2 are missing
  CHECK(next.lost == 7);
  CHECK(next.id == 65538);
}

TEST_CASE("the last 16-bit id makes no wide camera: what is lost after it is counted") {
  FrameIdUnwrapper ids(false);
  ids.next(65535);
  const auto next = ids.next(3);  // 1 and 2 are missing
  CHECK(next.id == 65538);
  CHECK(next.lost == 2);
}

TEST_CASE("a wrap with up to half a round lost is one, beyond that the camera counts anew") {
  FrameIdUnwrapper wrapped(false);
  wrapped.next(40'000);
  const auto half = wrapped.next(7232);  // 32767 steps on
  CHECK(half.id == 72'767);
  CHECK(half.lost == 32'766);
  FrameIdUnwrapper anew(false);
  anew.next(40'000);
  const auto next = anew.next(7233);
  CHECK(next.id == 40'001);
  CHECK(next.lost == 0);
}

TEST_CASE("an id beyond 16 bits makes a wide camera, whose count does not wrap") {
  FrameIdUnwrapper ids(false);
  ids.next(65'534);
  CHECK(ids.next(65'536).lost == 1);
  CHECK(ids.next(65'538).id == 65'538);
  const auto back = ids.next(9);  // it was restarted
  CHECK(back.id == 65'539);
  CHECK(back.lost == 0);
}

TEST_CASE("many rounds of 16-bit ids stay contiguous") {
  FrameIdUnwrapper ids(false);
  std::uint64_t expected = ids.next(1).id;
  std::uint64_t raw = 1;
  bool contiguous = true;
  for (int i = 0; i < 300'000; ++i) {
    raw = raw == 65535 ? 1 : raw + 1;
    const auto next = ids.next(raw);
    contiguous = contiguous && next.lost == 0 && next.id == ++expected;
  }
  CHECK(contiguous);
}

TEST_CASE("64-bit ids are taken as they are") {
  FrameIdUnwrapper ids(true);
  CHECK(ids.next(0).id == 0);
  CHECK(ids.next(65535).lost == 65534);
  CHECK(ids.next(65536).id == 65536);
  CHECK(ids.next(1ULL << 40U).lost == (1ULL << 40U) - 65537);
}

TEST_CASE("a camera that counts anew neither goes back nor loses frames") {
  FrameIdUnwrapper ids(false);
  ids.next(1000);
  const auto next = ids.next(1);
  CHECK(next.id == 1001);
  CHECK(next.lost == 0);
}

TEST_CASE("after a reconnection the ids go on") {
  FrameIdUnwrapper ids(false, 70'001);
  const auto first = ids.next(3);
  CHECK(first.id == 70'001);
  CHECK(first.lost == 0);
  const auto next = ids.next(5);
  CHECK(next.id == 70'003);
  CHECK(next.lost == 1);
}

TEST_CASE("a ring before the wait is kept, many are one") {
  const Doorbell bell;
  bell.ring();
  bell.ring();
  CHECK(bell.wait_until(monotonic_ns()));
  CHECK_FALSE(bell.wait_until(monotonic_ns()));
}

TEST_CASE("without a ring a wait takes as long as asked, parts of a second included") {
  const Doorbell bell;
  const std::int64_t deadline_ns = monotonic_ns() + 30'000'000;
  CHECK_FALSE(bell.wait_until(deadline_ns));
  CHECK(monotonic_ns() >= deadline_ns - 1'000'000);  // poll rounds to its clock's granularity
}

TEST_CASE("a ring ends the wait of another thread") {
  const Doorbell bell;
  std::thread ringer([&] { bell.ring(); });
  CHECK(bell.wait_until(monotonic_ns() + 60 * kNanosecondsPerSecond));
  ringer.join();
}

TEST_CASE("the probe of an address where nobody is says no") {
  using namespace std::chrono_literals;
  aravis::GvcpProbe nobody("127.77.77.77");
  CHECK_FALSE(nobody.answered(20ms));
  CHECK_FALSE(nobody.answered(20ms));
  CHECK_FALSE(aravis::GvcpProbe("Basler-21876543").answered(20ms));
}

TEST_CASE("only the answer to the probe's own question counts") {
  using namespace std::chrono_literals;
  const ScriptedCamera camera("127.0.41.30");
  aravis::GvcpProbe probe("127.0.41.30");
  const auto ask = [&](std::uint8_t id_high, std::uint8_t id_low,
                       std::chrono::milliseconds timeout) {
    std::array<std::uint8_t, 8> question{};
    std::thread answering([&] { question = camera.answer(id_high, id_low); });
    const bool answered = probe.answered(timeout);
    answering.join();
    return std::pair(question, answered);
  };
  const auto [first, first_answered] = ask(0, 1, 10s);
  CHECK(first == std::array<std::uint8_t, 8>{0x42, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01});
  CHECK(first_answered);
  CHECK_FALSE(ask(0, 1, 300ms).second);  // the answer to the question before
  CHECK_FALSE(ask(3, 0, 300ms).second);  // the id's bytes exchanged
  CHECK(ask(0, 4, 10s).second);
}

TEST_CASE("loopback is 127.0.0.0/8") {
  CHECK(aravis::is_loopback("127.0.0.1"));
  CHECK(aravis::is_loopback("127.41.3.2"));
  CHECK_FALSE(aravis::is_loopback("192.168.127.1"));
  CHECK_FALSE(aravis::is_loopback("12.7.0.1"));
  CHECK_FALSE(aravis::is_loopback("127.camera"));
}

namespace {

/// Asks a clock four times a second; every answer takes `took_ns`, the clock's time is of its
/// middle.
struct Asked {
  ClockReadings readings;
  double camera_ns = 5e15;
  std::int64_t now_ns = 7'000'000'000'000;

  void for_seconds(double seconds, double slow, std::int64_t took_ns = 1'000'000) {
    for (double s = 0; s < seconds; s += 0.25) {
      readings.add({camera_ns, now_ns - took_ns / 2, now_ns + took_ns / 2});
      now_ns += 250'000'000;
      camera_ns += 250e6 * (1 - slow);
    }
  }
};

}  // namespace

TEST_CASE("the rate of a clock is known from three readings on, as well as their round trips let") {
  for (const double slow : {-0.25, 0.0, 0.001, 0.02, 0.33}) {
    CAPTURE(slow);
    Asked clock;
    clock.for_seconds(0.5, slow);
    CHECK(std::isinf(clock.readings.rate().uncertainty));
    clock.for_seconds(0.25, slow);
    CHECK(clock.readings.rate().slow == Approx(slow).margin(1e-5));
    CHECK(clock.readings.rate().uncertainty == Approx(0.002).margin(1e-5));  // 1 ms in 0.5 s
    clock.for_seconds(20, slow);
    CHECK(clock.readings.rate().slow == Approx(slow).margin(1e-6));
    CHECK(clock.readings.rate().uncertainty == Approx(0.001 / 8).margin(1e-6));  // 8 s are kept
    clock.readings.clear();
    CHECK(std::isinf(clock.readings.rate().uncertainty));
  }
}

TEST_CASE("no rate is proven by readings of a clock that was set meanwhile") {
  for (const double step_ns : {-1e9, -0.01e9, 1e9}) {
    for (const double at_s : {0.5, 4.0, 7.5}) {
      CAPTURE(step_ns, at_s);
      Asked clock;
      clock.for_seconds(at_s, 0, 100'000);
      clock.camera_ns += step_ns;
      clock.for_seconds(8 - at_s, 0, 100'000);
      CHECK(clock.readings.rate().uncertainty > clock.readings.rate().slow);
      clock.for_seconds(9, 0, 100'000);
      CHECK(clock.readings.rate().uncertainty < 1e-4);
    }
  }
}

TEST_CASE("a reading that took long does not count") {
  Asked clock;
  clock.for_seconds(0.5, 0);
  clock.for_seconds(1, 0, 30'000'000);
  CHECK(std::isinf(clock.readings.rate().uncertainty));
  clock.for_seconds(0.25, 0);
  CHECK(clock.readings.rate().uncertainty < 0.002);
}
