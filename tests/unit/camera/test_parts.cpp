// SPDX-License-Identifier: MIT
// The small parts under the Aravis source: mailbox, frame ids, doorbell, probe.
#include <chrono>
#include <thread>
#include <vector>

#include "camera/aravis/gvcp_probe.hpp"
#include "camera/doorbell.hpp"
#include "camera/frame_id.hpp"
#include "camera/monotonic.hpp"
#include "camera/newest_mailbox.hpp"
#include "support/catch.hpp"

using namespace driftd::camera;

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
      const auto removed = mailbox.publish(item);
      if (removed.item != nullptr) free_items.push_back(removed.item);
      if (removed.fresh) ++superseded;
    }
  });
  std::uint64_t taken = 0;
  std::uint64_t last = 0;
  bool ascending = true;
  Item* lent = nullptr;
  while (last < kRounds) {
    if (Item* item = mailbox.take(lent)) {
      ascending = ascending && item->number > last;
      last = item->number;
      lent = item;
      ++taken;
    }
  }
  writer.join();
  CHECK(ascending);
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

TEST_CASE("frames lost across the wrap are counted") {
  FrameIdUnwrapper ids(false);
  ids.next(65530);
  const auto next = ids.next(3);  // 65531..65535, 1, 2 are missing
  CHECK(next.lost == 7);
  CHECK(next.id == 65538);
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
