// SPDX-License-Identifier: MIT
// Raw frames from memory to a file: which are saved, and what a disk that fails makes of it.
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "camera/recording/image_stack.hpp"
#include "daemon/recorder/frame_keeper.hpp"
#include "housekeeping_for_tests.hpp"
#include "ring_camera.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using driftd::daemon::test::kRingFrameBytes;
using driftd::daemon::test::kRingWidth;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::RingCamera;
using driftd::daemon::test::Told;
using driftd::daemon::test::turned_until;
namespace fs = std::filesystem;

namespace {
std::atomic<bool> disk_waits{false}, disk_is_awaited{false};
}

/// The C library's, but for a disk that takes its time to end a file.
extern "C" int ftruncate(int fd, off_t size) {
  static const auto real = reinterpret_cast<int (*)(int, off_t)>(dlsym(RTLD_NEXT, "ftruncate"));
  for (; disk_waits; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    disk_is_awaited = true;
  return real(fd, size);
}

namespace {

std::string refusal_of(FrameKeeper& keeper) {
  try {
    keeper.save(0);
  } catch (const CommandRefused& refused) {
    return refused.text;
  }
  return "";
}

struct Fixture {
  fs::path folder = fs::temp_directory_path() / ("driftd-raw-" + std::to_string(getpid()));
  config::Config config = [this] {
    config::Config c = config::default_config();
    c.record.directory = folder;
    c.record.keep_free_mb = 0;
    c.record.frames_memory_mb = 1;
    c.record.frames_before_s = 2;
    c.record.frames_after_s = 0.02;
    return c;
  }();
  PlayedLoop played;
  Told told;
  LoopControl loop{played.ports};
  std::shared_ptr<FrameRing> ring;
  RingCamera camera{*ring};
  FrameKeeper keeper{config, "session", loop, told.log};

  explicit Fixture(std::size_t places = 100)
      : ring(std::make_shared<FrameRing>(places * kRingFrameBytes)) {
    keeper.begin(ring);
  }
  ~Fixture() {
    keeper.finish();
    fs::remove_all(folder);
  }
  void until(const std::function<bool()>& done) {
    REQUIRE(turned_until(done, [this] { keeper.turn(monotonic_ns()); }));
    keeper.turn(monotonic_ns());
  }
  void lock_goes(LockState from, LockState to) {
    LockChange change;
    change.previous = from;
    change.state = to;
    change.time_ns = monotonic_ns();
    keeper.follow(change);
  }
  nlohmann::json event(std::size_t at) {
    until([&] { return told.events.size() > at; });
    return told.events[at];
  }
  /// Begun, and all that was sent, up to five frames, is in its file; it lasts until end_save().
  fs::path long_save(std::int64_t now_ns = monotonic_ns()) {
    config.record.frames_after_s = 60;
    const fs::path file = keeper.save(now_ns).fields["file"].get<std::string>();
    until([&] { return fs::exists(file) && fs::file_size(file) > camera.id * kRingFrameBytes; });
    return file;
  }
  /// By a frame that came after its time.
  void end_save() { camera.send(1, monotonic_ns() + 61 * kNanosecondsPerSecond); }
  fs::path frames() const { return folder / "frames"; }
};

}  // namespace

TEST_CASE("a lost lock saves the frames around it, once each") {
  Fixture f;
  f.camera.send(60, monotonic_ns());
  f.lock_goes(LockState::Locked, LockState::Holding);  // not by itself
  f.lock_goes(LockState::Holding, LockState::Lost);
  const auto first = f.event(0);
  CHECK(first["code"] == "raw_frames");
  CHECK(first["action"] == "saved");
  CHECK(first["frames"] == 60);
  CHECK(first["not_kept"] == 0);
  f.camera.send(5, monotonic_ns());
  f.config.record.frames_at = config::RawFramesAt::Holding;
  f.lock_goes(LockState::Locked, LockState::Holding);
  const auto second = f.event(1);
  CHECK(second["frames"] == 5);
  const auto stack =
      camera::open_stack({.path = first["file"].get<std::string>(), .format = {}, .dataset = {}});
  CHECK(stack->shape().frames == 60);
  std::vector<std::byte> pixels(kRingFrameBytes);
  stack->read(59, 1, pixels.data());
  CHECK(pixels[kRingFrameBytes - 1] == std::byte{60});
  f.until([&] { return !f.keeper.status()["saving"]; });
  const auto status = f.keeper.status();
  CHECK(status["files"] == 2);
  CHECK(status["file"] == second["file"]);
  CHECK(status["problem"] == "");
  f.config.record.frames_at = config::RawFramesAt::Command;
  f.lock_goes(LockState::Holding, LockState::Lost);
  CHECK_FALSE(f.keeper.status()["saving"]);
}

TEST_CASE("raw frames are named by what held the lock in the end, and by what did at first") {
  Fixture f;
  f.config.record.frames_at = config::RawFramesAt::Lost;
  f.camera.send(10, monotonic_ns());
  LockChange change;
  change.previous = LockState::Holding;
  change.state = LockState::Lost;
  change.time_ns = monotonic_ns();
  change.reason = control::LockReason::HeldTooLong;
  change.held_for = control::LockReason::NoFrames;
  change.held_first = control::LockReason::TooFewMarkers;
  f.keeper.follow(change);
  const auto event = f.event(0);
  CHECK(event["why"] == "lost: held too long: no frames, at first too few markers");
  std::ifstream stream(event["file"].get<std::string>(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  CHECK_THAT(bytes, contains("no frames, at first too few markers"));
}

TEST_CASE("the time before a lost lock ends where it was held") {
  Fixture f;
  f.config.record.frames_at = config::RawFramesAt::Lost;
  const std::int64_t now_ns = monotonic_ns(), second = kNanosecondsPerSecond;
  f.camera.send(1, now_ns - 13 * second);
  f.camera.send(5, now_ns - 11 * second);
  f.camera.send(20, now_ns - 10 * second);
  f.camera.send(30, now_ns);
  const auto goes = [&](LockState from, LockState to, std::int64_t when_ns) {
    LockChange change;
    change.previous = from;
    change.state = to;
    change.time_ns = when_ns;
    f.keeper.follow(change);
  };
  goes(LockState::Locked, LockState::Holding, now_ns - 20 * second);
  goes(LockState::Holding, LockState::Locked, now_ns - 19 * second);
  goes(LockState::Locked, LockState::Holding, now_ns - 10 * second);
  goes(LockState::Holding, LockState::Lost, now_ns);
  const auto event = f.event(0);
  CHECK(event["frames"] == 55);
  CHECK(event["before_s"].get<double>() == Approx(11).margin(0.01));
}

TEST_CASE("events that wait for one another's files are all named") {
  Fixture f;
  f.camera.send(5, monotonic_ns());
  f.long_save();
  f.keeper.save(monotonic_ns());
  f.config.record.frames_at = config::RawFramesAt::Holding;
  f.config.record.frames_after_s = 120;
  f.lock_goes(LockState::Locked, LockState::Holding);
  f.lock_goes(LockState::Holding, LockState::Lost);
  f.end_save();
  f.camera.send(1, monotonic_ns() + 121 * kNanosecondsPerSecond);
  f.event(0);
  const std::string why = f.event(1)["why"];
  CHECK_THAT(why, contains("command; holding: "));
  CHECK_THAT(why, contains("; lost: "));
}

TEST_CASE("events that share a file have the frames of all of them") {
  Fixture f;
  const std::int64_t now_ns = monotonic_ns(), second = kNanosecondsPerSecond;
  f.camera.send(5, now_ns);
  f.long_save(now_ns);
  f.keeper.save(now_ns + 100 * second);
  LockChange change;
  change.previous = LockState::Locked;
  change.state = LockState::Holding;
  change.time_ns = now_ns + 91 * second;
  f.keeper.follow(change);
  change.previous = LockState::Holding;
  change.state = LockState::Lost;
  change.time_ns = now_ns + 101 * second;
  f.keeper.follow(change);
  f.camera.send(1, now_ns + 61 * second);
  f.camera.send(5, now_ns + 90 * second);
  f.camera.send(1, now_ns + 100 * second);
  f.camera.send(1, now_ns + 300 * second);
  CHECK(f.event(1)["frames"] == 6);
}

TEST_CASE(
    "on command frames are saved that are kept, and the refusal says which option keeps none") {
  Fixture f;
  f.camera.send(3, monotonic_ns());
  const Reply reply = f.keeper.save(monotonic_ns());
  const auto event = f.event(0);
  CHECK(event["why"] == "command");
  CHECK(event["file"] == reply.fields["file"]);
  CHECK(fs::exists(event["file"].get<std::string>()));
  f.config.record.frames_before_s = 0;
  f.keeper.turn(monotonic_ns());
  CHECK(refusal_of(f.keeper) == "no raw frames are kept: record.frames_before_s is 0");
  FrameKeeper none(f.config, "session", f.loop, f.told.log);
  none.begin(nullptr);
  CHECK(refusal_of(none) == "no raw frames are kept: record.frames_memory_mb is 0");
}

TEST_CASE("a disk that takes no frames is told, and frames go on being kept") {
  Fixture f;
  f.config.record.keep_free_mb = 2'000'000'000;
  f.camera.send(20, monotonic_ns());
  f.keeper.save(monotonic_ns());
  auto event = f.event(0);
  CHECK(event["action"] == "not_saved");
  CHECK_THAT(event["why"].get<std::string>(), contains("record.keep_free_mb"));
  CHECK(f.keeper.status()["problem"] == event["why"]);
  CHECK(fs::is_empty(f.frames()));
  f.config.record.keep_free_mb = 0;
  fs::remove_all(f.frames());
  std::FILE* in_the_way = std::fopen(f.frames().c_str(), "w");
  std::fclose(in_the_way);
  f.camera.send(200, monotonic_ns());
  f.keeper.save(monotonic_ns());
  CHECK(f.event(1)["action"] == "not_saved");
  fs::remove(f.frames());
  f.camera.send(20, monotonic_ns());
  f.keeper.save(monotonic_ns());
  CHECK(f.event(2)["action"] == "saved");
  CHECK(f.keeper.status()["not_kept"] == 0);
}

TEST_CASE("a disk that fails meanwhile leaves what was written before, and is told") {
  Fixture f;
  f.camera.send(50, monotonic_ns());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{100'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  f.keeper.save(monotonic_ns());
  const auto full = f.event(0);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(full["action"] == "cut_short");
  CHECK_THAT(full["why"].get<std::string>(), contains("File too large"));
  const auto stack =
      camera::open_stack({.path = full["file"].get<std::string>(), .format = {}, .dataset = {}});
  CHECK(stack->shape().frames == full["frames"]);
  CHECK(stack->shape().frames == 20);
}

TEST_CASE("a file that is gone when it ends is told") {
  Fixture f;
  f.camera.send(5, monotonic_ns());
  f.long_save();
  fs::remove_all(f.frames());
  f.end_save();
  const auto gone = f.event(0);
  CHECK(gone["action"] == "cut_short");
  CHECK_THAT(gone["why"].get<std::string>(), contains("No such file"));
}

TEST_CASE("while a slow disk ends a file frames go on being kept, or are those of the next one") {
  Fixture f;
  const bool next = GENERATE(false, true);
  f.camera.send(5, monotonic_ns());
  disk_waits = true;
  disk_is_awaited = false;
  f.long_save();
  if (next) f.keeper.save(monotonic_ns());
  f.end_save();
  f.until([] { return disk_is_awaited.load(); });
  f.camera.send(299, monotonic_ns());
  const std::uint64_t not_kept = f.ring->not_kept;
  disk_waits = false;
  CHECK(not_kept == (next ? 200 : 0));
}

TEST_CASE("memory that has become too little is told once") {
  Fixture f(1000);
  f.config.record.frames_at = config::RawFramesAt::Holding;
  f.camera.send(1);
  f.played.report.frame_rate_hz = 490;
  f.played.tell();
  f.loop.refresh();
  f.keeper.turn(1);
  CHECK(f.told.events.empty());
  CHECK(f.keeper.status()["problem"] == "");
  f.config.record.frames_before_s = 3;  // reloaded
  f.keeper.turn(2);
  f.keeper.turn(3);
  REQUIRE(f.told.events.size() == 1);
  CHECK(f.told.events[0]["action"] == "little_room");
  CHECK(f.told.events[0]["text"] ==
        "the 4 MB taken at the start hold 2 s of raw frames, not 3: start driftd again, where that "
        "is too little with more record.frames_memory_mb");
  CHECK(f.keeper.status()["problem"] ==
        "the 4 MB taken at the start hold 2 s of raw frames, not 3");
  f.camera.width = 1001 * kRingWidth;
  for (int second = 2; second < 9; ++second) {
    f.camera.send(50);
    f.keeper.turn(second * kNanosecondsPerSecond);
  }
  REQUIRE(f.told.events.size() == 2);
  CHECK_THAT(f.told.events[1]["text"].get<std::string>(), contains("hold no raw frame"));
}

TEST_CASE("old raw frames make room for what is to be saved") {
  const fs::path in_memory = "/dev/shm";  // where nobody else writes meanwhile
  if (!fs::exists(in_memory)) return;
  Fixture f(4300);
  f.folder = f.config.record.directory = in_memory / ("driftd-raw-" + std::to_string(getpid()));
  fs::create_directories(f.frames());
  const auto available_mb = [&] {
    return static_cast<int>(fs::space(f.frames()).available / 1'000'000);
  };
  const fs::path old = f.frames() / "driftd_20260101T000000.000Z_001.tif";
  const auto make_old = [&] {
    std::ofstream(old) << std::string(8'000'000, ' ');
    fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  SECTION("on the disk") {
    make_old();
    f.camera.send(900, monotonic_ns());  // in a file of 4.4 MB
    f.config.record.keep_free_mb = available_mb() - 2;
    f.keeper.save(monotonic_ns());
    CHECK(f.event(0)["action"] == "removed");
    CHECK_FALSE(fs::exists(old));
    CHECK(f.event(1)["action"] == "saved");
  }
  SECTION("but not for nothing") {
    make_old();
    f.camera.send(4000, monotonic_ns());  // 19.5 MB
    f.config.record.keep_free_mb = available_mb() - 2;
    f.keeper.save(monotonic_ns());
    CHECK(f.event(0)["action"] == "not_saved");
    CHECK(fs::exists(old));
  }
  SECTION("in what all may have together") {
    make_old();
    f.camera.send(900, monotonic_ns());
    f.config.record.frames_keep_mb = 10;
    f.keeper.save(monotonic_ns());
    CHECK(f.event(0)["action"] == "removed");
    CHECK(f.event(1)["action"] == "saved");
  }
  SECTION("which is then there to the last frame") {
    f.camera.send(4200, monotonic_ns());  // 20.4 MB
    f.config.record.keep_free_mb = available_mb() - 21;
    f.keeper.save(monotonic_ns());
    CHECK(f.event(0)["action"] == "saved");
  }
}

TEST_CASE("what ends a file before its time is told") {
  Fixture f;
  f.camera.send(5, monotonic_ns());
  const std::int64_t now_ns = monotonic_ns();
  const fs::path file = f.long_save(now_ns);
  CHECK(f.keeper.save(now_ns).fields["file"] != file.string());  // in the same millisecond
  SECTION("more frames than were reckoned with") {
    const auto cut_short = [&] {
      return std::ranges::find(f.told.events, "cut_short",
                               [](const nlohmann::json& event) { return event["action"]; });
    };
    f.until([&] {
      f.camera.send(1, monotonic_ns());
      return cut_short() != f.told.events.end();
    });
    const nlohmann::json event = *cut_short();  // behind some that were not kept, perhaps
    CHECK(event["frames"] == 105 + 105 / 4 + 100);
    CHECK_THAT(event["why"].get<std::string>(), contains("more frames came"));
  }
  SECTION("the end of the daemon, before which what lies in memory is saved") {
    f.camera.send(80, now_ns);
    f.keeper.finish();
    CHECK(f.told.events[0]["action"] == "cut_short");
    CHECK(f.told.events[0]["why"] == "driftd ends");
    CHECK(f.told.events[0]["frames"] == 85);
  }
  SECTION("the end of the daemon, which leaves none of an order that waits") {
    f.keeper.finish();
    REQUIRE(f.told.events.size() == 2);
    CHECK(f.told.events[0]["action"] == "cut_short");
    CHECK(f.told.events[0]["why"] == "driftd ends");
    CHECK(f.told.events[0]["frames"] == 5);
    CHECK(f.told.events[1]["action"] == "not_saved");
    CHECK(f.told.events[1]["why"] == "driftd ends");
  }
}

TEST_CASE("memory that does not hold what is asked for is refused with the sum") {
  config::Config config = config::default_config();
  camera::SourceInfo camera;
  camera.width_px = camera.height_px = 512;
  camera.frame_rate_hz = 500;
  CHECK(make_frame_ring(config, camera) == nullptr);
  config.record.frames_memory_mb = 1000;
  config.lock.hold_timeout_s = 7;
  try {
    make_frame_ring(config, camera);
    FAIL("taken");
  } catch (const config::ConfigError& error) {
    CHECK_THAT(error.what(), contains("17 s (record.frames_before_s and lock.hold_timeout_s, after "
                                      "which a lock is lost) of 512 x 512 Mono8 at 500 frames/s "
                                      "need 2298"));
  }
  config.record.frames_at = config::RawFramesAt::Holding;
  try {
    make_frame_ring(config, camera);
    FAIL("taken");
  } catch (const config::ConfigError& error) {
    CHECK_THAT(error.what(), contains("10 s (record.frames_before_s) of 512 x 512 Mono8 at "
                                      "500 frames/s need 1381"));
  }
  config.record.frames_memory_mb = 20;
  config.record.frames_before_s = 0;  // for now: a reload may ask for some
  CHECK(make_frame_ring(config, camera)->bytes() == 20'000'000);
  config.record.frames_memory_mb = 1000;
  config.record.frames_before_s = 0.1;
  const auto ring = make_frame_ring(config, camera);
  CHECK(ring->bytes() < 100'000'000);
  CHECK(ring->bytes() > 70'000'000);
  camera.width_px = camera.height_px = 32;
  camera.frame_rate_hz = 10'000;
  config.record.frames_before_s = 10;
  const auto small_frames = make_frame_ring(config, camera);
  small_frames->wanted = true;
  const std::vector<std::byte> pixels(32 * 32);
  small_frames->keep({.pixels = pixels.data(), .width_px = 32, .height_px = 32}, 0);
  CHECK(small_frames->room() >= 100'000);
}
