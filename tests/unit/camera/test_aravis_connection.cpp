// SPDX-License-Identifier: MIT
// Connection and Reaper by themselves: losses at times that the test names, and who closes what
// when. On "Fake_1", Aravis' camera without a network, and on a simulated one that sends nothing.
#include <arv.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/monotonic.hpp"
#include "camera/aravis/connection.hpp"
#include "camera/aravis/open.hpp"
#include "camera/aravis/reaper.hpp"
#include "simulator/gige_camera.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace std::chrono_literals;
namespace sim = driftd::simulator;
using aravis::Connection;
using aravis::FrameSlot;
using aravis::Reaper;
using aravis::SourceShared;

namespace {

AravisSettings settings_for_test() {
  AravisSettings settings = driftd::test::default_aravis_settings();
  settings.format = PixelFormat::Mono8;
  settings.region_width_px = 128;
  settings.region_height_px = 64;
  settings.frame_rate_hz = 200;
  settings.stall_timeout_ms = 300;
  return settings;
}

/// A connection to Aravis' camera in this process, and its device beyond the connection's end.
struct FakeConnection {
  explicit FakeConnection(SourceShared& shared) {
    arv_enable_interface("Fake");
    arv_disable_interface("GigEVision");  // the other interfaces would search the network
    arv_disable_interface("USB3Vision");
    aravis::OpenCamera opened = aravis::open_camera("Fake_1");
    device.reset(ARV_DEVICE(g_object_ref(arv_camera_get_device(opened.camera.get()))));
    connection = std::make_unique<Connection>(std::move(opened), shared);
  }

  bool acquires() const {
    guint32 value = 0;
    arv_device_read_register(device.get(), ARV_FAKE_CAMERA_REGISTER_ACQUISITION, &value, nullptr);
    return value != 0;
  }

  aravis::Ref<ArvDevice> device;
  std::unique_ptr<Connection> connection;
};

FrameSlot* next_frame(Connection& connection) {
  const std::int64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  while (monotonic_ns() < end_ns) {
    if (FrameSlot* slot = connection.mailbox().take(nullptr)) return slot;
    std::this_thread::sleep_for(1ms);
  }
  return nullptr;
}

/// Holds up the close of a connection at one of its buffers, until it is let go.
class HeldClose {
 public:
  explicit HeldClose(FrameSlot& slot) {
    g_object_set_data_full(G_OBJECT(slot.buffer.get()), "held", this, [](gpointer self) {
      auto* held = static_cast<HeldClose*>(self);
      held->reached_.set_value();
      held->let_go_.get_future().wait();
    });
  }
  void wait_until_reached() { reached_.get_future().wait(); }
  void let_go() { let_go_.set_value(); }

 private:
  std::promise<void> reached_;
  std::promise<void> let_go_;
};

/// Streams, but no packet of it comes.
class NoFrames final : public sim::FrameProducer {
 public:
  sim::MadeFrame make(const sim::FramePlan& /*plan*/, std::span<std::byte> /*image*/) override {
    return {.fate = sim::FrameFate::Drop};
  }
  bool camera_away() override { return false; }
};

}  // namespace

TEST_CASE("a lost control connection is a loss at once") {
  SourceShared shared(settings_for_test());
  const std::int64_t before_ns = monotonic_ns();  // no silence however busy the machine is
  const FakeConnection fake(shared);
  CHECK(fake.connection->loss(before_ns).empty());
  g_signal_emit_by_name(fake.device.get(), "control-lost");
  CHECK(fake.connection->loss(before_ns) == "the control connection broke");
}

TEST_CASE("a camera has a second to its first frame, and is lost after it") {
  arv_enable_interface("GigEVision");
  NoFrames nothing;
  const sim::GigeCamera camera({.address = "127.0.41.20", .serial = "SILENT"}, {}, nothing);
  SourceShared shared(settings_for_test());
  aravis::OpenCamera opened = aravis::open_camera("127.0.41.20");
  const std::int64_t before_ns = monotonic_ns();
  const Connection connection(std::move(opened), shared);
  const std::int64_t after_ns = monotonic_ns();
  CHECK(connection.loss(before_ns + 999'000'000).empty());  // stall_timeout_ms is 300
  CHECK(connection.loss(after_ns + 1'001'000'000).starts_with("no frame for 1"));
  CHECK(connection.heartbeat_is_due(before_ns + 499'000'000));
  CHECK_FALSE(connection.heartbeat_is_due(after_ns + 501'000'000));  // it may be lost
}

TEST_CASE("the first frame of a connection follows the last of the one before") {
  SourceShared shared(settings_for_test());
  std::uint64_t last_id = 0;
  for (int round = 0; round < 3; ++round) {
    const FakeConnection fake(shared);
    const FrameSlot* slot = next_frame(*fake.connection);
    REQUIRE(slot != nullptr);
    CHECK((round == 0 || slot->frame.id > last_id));
    fake.connection->close(true);
    // What came since is in the mailbox; its memory stays readable.
    if (const FrameSlot* newest = fake.connection->mailbox().take(nullptr)) slot = newest;
    last_id = slot->frame.id;
    CHECK(shared.next_frame_id == last_id + 1);
  }
}

TEST_CASE("the reaper keeps a closed connection for as long as the loop reads its frames") {
  SourceShared shared(settings_for_test());
  FakeConnection fake(shared);
  const FrameSlot* slot = next_frame(*fake.connection);
  REQUIRE(slot != nullptr);
  const Connection* expected = fake.connection.get();
  std::atomic<int> looks{0};
  std::atomic<bool> others{false};
  Reaper reaper([&](const Connection* asked) {
    others = others || asked != expected;
    return ++looks < 4;
  });
  reaper.take(std::move(fake.connection), true);
  const std::int64_t end_ns = monotonic_ns() + 10 * kNanosecondsPerSecond;
  while (looks < 4 && monotonic_ns() < end_ns) std::this_thread::sleep_for(5ms);
  std::this_thread::sleep_for(200ms);  // several of its looks: it is gone now
  CHECK(looks == 4);
  CHECK_FALSE(others);
}

TEST_CASE("the wait for the reaper ends when the connection is closed, not when it is taken") {
  SourceShared shared(settings_for_test());
  FakeConnection fake(shared);
  FrameSlot* slot = next_frame(*fake.connection);
  REQUIRE(slot != nullptr);
  HeldClose held(*slot);
  Reaper reaper([](const Connection*) { return false; });
  CHECK(reaper.wait_until_closed(0ms));  // nothing to close
  reaper.take(std::move(fake.connection), true);
  held.wait_until_reached();
  const bool closed_while_held = reaper.wait_until_closed(20ms);
  held.let_go();
  CHECK_FALSE(closed_while_held);
  CHECK(reaper.wait_until_closed(60s));
}

TEST_CASE("what is left when the reaper ends is closed as it was handed over") {
  SourceShared shared(settings_for_test());
  FakeConnection busy(shared);
  FakeConnection there(shared);
  FakeConnection gone(shared);
  FrameSlot* slot = next_frame(*busy.connection);
  REQUIRE(slot != nullptr);
  HeldClose held(*slot);
  auto reaper = std::make_unique<Reaper>([](const Connection*) { return false; });
  reaper->take(std::move(busy.connection), true);
  held.wait_until_reached();
  reaper->take(std::move(there.connection), true);
  reaper->take(std::move(gone.connection), false);
  std::thread ending([&] { reaper.reset(); });
  std::this_thread::sleep_for(100ms);  // it has been told to end by then
  held.let_go();
  ending.join();
  CHECK_FALSE(there.acquires());
  CHECK(gone.acquires());  // a camera that is not there is told nothing: that only times out
}
