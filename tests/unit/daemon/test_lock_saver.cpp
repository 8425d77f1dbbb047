// SPDX-License-Identifier: MIT
// What is kept of a lock, and when.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lock_saver_fixture.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using Fixture = DaemonsFixture;

TEST_CASE("each endpoint of commands has a file of its own") {
  const StateFolder folder;
  config::Config config = config::default_config();
  config.wire.commands = {"ipc://commands"};
  CHECK(lock_file(config) == folder.path / "lock-ipc-commands.state");
  config.wire.commands = {"tcp://127.0.0.1:5557"};
  CHECK(lock_file(config) == folder.path / "lock-tcp-127.0.0.1-5557.state");
  std::set<std::filesystem::path> files;
  for (const char* endpoint : {"ipc://cam-1", "ipc://cam_1", "ipc://cam.1", "ipc://cam1"}) {
    config.wire.commands = {endpoint};
    files.insert(lock_file(config));
  }
  CHECK(files.size() == 4);
}

TEST_CASE("a lock is kept with its references, its total and its travel") {
  Fixture f;
  f.lock_and_die();
  const auto lock = f.kept();
  REQUIRE(lock);
  CHECK(lock->session == "0000000000000001");
  CHECK(lock->lock_id == 3);
  CHECK(lock->total_nm.x == -40);
  CHECK(lock->travelled_nm.x == 700);
  CHECK(lock->carried_nm.x == 5);
  CHECK(lock->roi_px == 15);
  REQUIRE(lock->markers.size() == 2);
  CHECK(lock->markers[0].id == 4);
  CHECK(lock->markers[0].reference.place_px.x == 1030);
  CHECK(lock->markers[1].role == control::MarkerRole::Witness);
  CHECK(lock->meaning.at("camera") == "maker model 7");  // its address may change
}

TEST_CASE("the sizes that were in use are kept, also where they were configured") {
  Fixture f;
  f.config.optics.spot_sigma_px = 2.1;
  f.config.fitter.roi_px = 21;
  f.lock_and_die();
  const auto lock = f.kept();
  REQUIRE(lock);
  CHECK(lock->spot_sigma_px == 2.1);
  CHECK(lock->roi_px == 21);
}

TEST_CASE("a lock is written each second, and sooner only where the stage was told to go far") {
  Fixture f;
  f.lock(LockState::Locked, 1, {1, 0});
  REQUIRE(f.is_written([](const SavedLock& l) { return l.total_nm.x == 1; }));
  f.run->played.report.total_nm = {15, 0};
  f.run->played.tell();
  f.turn(900);
  f.turn(80);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(f.kept().value().total_nm.x == 1);
  f.turn(20);  // the second is over
  REQUIRE(f.is_written([](const SavedLock& l) { return l.total_nm.x == 15; }));
  f.run->played.report.total_nm = {15, 36};
  f.run->played.tell();
  f.turn(90);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(f.kept().value().total_nm.y == 0);
  f.run->played.report.total_nm = {15, 37};
  f.run->played.tell();
  f.turn(20);
  REQUIRE(f.is_written([](const SavedLock& l) { return l.total_nm.y == 37; }));
}

TEST_CASE("what the stage was told last is written when the daemon ends") {
  Fixture f;
  f.lock(LockState::Locked, 1, {1, 0});
  f.run->played.report.total_nm = {2, 0};
  f.run->played.tell();
  f.run->loop.refresh();
  f.run->memory.write_last();
  f.run.reset();
  CHECK(f.kept().value().total_nm.x == 2);
}

TEST_CASE("a lock that was ended is not kept; a lost one is, as lost") {
  Fixture f;
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.kept().has_value(); }));
  f.lock(LockState::Holding, 1);
  f.lock(LockState::Lost, 1);
  REQUIRE(f.is_written([](const SavedLock& l) { return l.lost; }));
  f.run->interrupted.forget();
  f.lock(LockState::Idle, 1);
  REQUIRE(f.until([&] { return !f.kept(); }));
  f.lock(LockState::Referencing, 2);
  f.lock(LockState::Idle, 2);
  f.run.reset();
  CHECK_FALSE(f.kept());
}

TEST_CASE("`never` keeps nothing and looks at nothing") {
  Fixture f;
  f.lock_and_die();
  f.config.lock.resume = config::Resume::Never;
  f.start("0000000000000003");
  CHECK(f.run->told.events.empty());
  CHECK(f.run->interrupted.status().is_null());
  CHECK_FALSE(f.kept());  // nor may a later daemon find it
  f.lock(LockState::Locked, 1);
  f.run.reset();
  CHECK_FALSE(f.kept());
}

TEST_CASE("`never` says what it cannot remove") {
  Fixture f;
  f.config.lock.resume = config::Resume::Never;
  std::filesystem::create_directory(lock_file(f.config));  // what no unlink() removes
  f.start("0000000000000003");
  CHECK(f.run->count("state_not_written") == 1);
  CHECK_THAT(f.run->last("state_not_written"), contains(lock_file(f.config).string()));
}

TEST_CASE("a place that cannot be written is told once, and when it can be again") {
  Fixture f;
  std::filesystem::remove_all(f.folder.path);
  std::ofstream(f.folder.path) << "in the way";
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.run->count("state_not_written") == 1; }));
  CHECK_THAT(f.run->last("state_not_written"), contains(f.folder.path.string()));
  f.turn(1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  f.turn(1000);
  CHECK(f.run->count("state_not_written") == 1);
  std::filesystem::remove(f.folder.path);
  f.turn(1000);
  REQUIRE(f.until([&] { return f.run->count("state_not_written") == 2; }));
  CHECK_THAT(f.run->last("state_not_written"), contains("again"));
  CHECK(f.kept());
}

TEST_CASE("a lock that ended while its file could not be removed goes once it can be") {
  Fixture f;
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.kept().has_value(); }));
  const auto file = lock_file(f.config);
  const auto aside = file.string() + ".aside";
  std::filesystem::rename(file, aside);
  std::filesystem::create_directory(file);  // what no unlink() removes
  f.lock(LockState::Idle, 1);
  REQUIRE(f.until([&] { return f.run->count("state_not_written") == 1; }));
  CHECK_THAT(f.run->last("state_not_written"), contains("a lock that has ended would be found"));
  std::filesystem::remove(file);
  std::filesystem::rename(aside, file);
  REQUIRE(f.until([&] { return !f.kept(); }));
}

TEST_CASE(
    "a lock that was lost while its file could not be written is kept as lost once it can be") {
  Fixture f;
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.kept().has_value(); }));
  const std::filesystem::path fresh = lock_file(f.config).string() + ".new";
  std::filesystem::create_directory(fresh);  // in the way
  f.lock(LockState::Lost, 1);
  REQUIRE(f.until([&] { return f.run->count("state_not_written") == 1; }));
  CHECK_FALSE(f.kept().value().lost);
  std::filesystem::remove(fresh);
  REQUIRE(f.is_written([](const SavedLock& l) { return l.lost; }));
}

TEST_CASE("a lock that was ended by command is not kept, though the loop has not obeyed") {
  Fixture f;
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.kept().has_value(); }));
  f.run->interrupted.forget();
  REQUIRE(f.until([&] { return !f.kept(); }));
  f.turn(LockSaver::kEachNs / kMs);
  f.run->memory.write_last();  // the watchdog's end, or somebody's
  f.start("0000000000000002");
  CHECK_FALSE(f.run->interrupted.asks());
  // The next one is another lock.
  f.lock(LockState::Locked, 1);
  f.run->interrupted.forget();
  f.lock(LockState::Locked, 2);
  CHECK(f.is_written([](const SavedLock& l) { return l.lock_id == 2; }));
}

TEST_CASE("a lock that ends while the daemon does is not kept") {
  Fixture f;
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.kept().has_value(); }));
  f.run->played.tell_state(LockState::Idle);
  f.run->loop.refresh();
  f.run->memory.write_last();
  f.run.reset();
  CHECK_FALSE(f.kept());
}

TEST_CASE(
    "a disk that does not answer is told, nobody waits for it, and it is written when it does") {
  const StateFolder folder;
  const auto file = folder.path / "lock.state";
  const std::string fresh = file.string() + ".new";
  REQUIRE(mkfifo(fresh.c_str(), 0600) == 0);  // to open it for writing waits for a reader
  StateWriter writer(file, std::chrono::milliseconds(20));
  const auto until = [](const auto& condition) { return turned_until(condition, [] {}); };
  CHECK(writer.problem().empty());
  writer.write(some_lock());
  const bool told =
      until([&] { return writer.problem().find("has not answered") != std::string::npos; });
  CHECK_THAT(writer.problem(), contains(file.string()));
  writer.remove();
  writer.write(some_lock());
  const int reader = open(fresh.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  CHECK(told);
  CHECK(until([&] { return std::filesystem::exists(file) && writer.problem().empty(); }));
  close(reader);
}

TEST_CASE("corrupt state is said and ignored") {
  Fixture f;
  f.lock_and_die();
  std::string text = content_of(lock_file(f.config));
  text[text.size() / 2] = '#';
  std::ofstream(lock_file(f.config), std::ios::binary) << text;
  f.start("0000000000000003");
  CHECK(f.run->told.codes() == std::vector<std::string>{"state_ignored"});
  CHECK_THAT(f.run->last("state_ignored"), contains("checksum"));
  CHECK(f.run->interrupted.wanted() == nullptr);
}

TEST_CASE("a state file has one daemon, which the second is told of") {
  const bool never = GENERATE(false, true);
  Fixture f;
  f.run->played.report.travelled_nm = {700, 0};
  f.lock(LockState::Locked, 3, {-40, 15});
  REQUIRE(f.is_written([](const SavedLock& l) { return l.lock_id == 3; }));
  config::Config config = f.config;  // a second daemon's, in another runtime directory
  if (never) config.lock.resume = config::Resume::Never;
  {
    DaemonsFixture::Run second(config, "0000000000000002");
    CHECK_FALSE(second.interrupted.asks());  // the first's lock lives
    CHECK(second.count("lock_interrupted") == 0);
    REQUIRE(second.count("state_not_written") == 1);
    CHECK_THAT(second.last("state_not_written"),
               contains("process " + std::to_string(getpid()) + ", "));
    CHECK_THAT(second.last("state_not_written"), contains(lock_file(config).string()));
    second.played.report.lock_id = 1;
    second.played.tell_state(LockState::Locked);
    second.loop.refresh();
    second.memory.turn(f.now_ns);
    second.interrupted.forget();
    second.memory.write_last();
  }
  CHECK(f.kept().value().session == "0000000000000001");
  f.start("0000000000000003");  // the first has ended
  CHECK(f.run->interrupted.asks());
  CHECK(f.run->count("state_not_written") == 0);
}
