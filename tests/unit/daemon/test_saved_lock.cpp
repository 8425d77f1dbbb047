// SPDX-License-Identifier: MIT
#include <sys/resource.h>
#include <cmath>

#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "base/state_file.hpp"
#include "daemon/resume/saved_lock.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::content_of;
using driftd::daemon::test::some_lock;
using driftd::daemon::test::StateFolder;

namespace {

/// Why it is refused; nothing: it is not.
std::optional<std::string> refusal_of(const std::string& text) {
  try {
    read_saved_lock(text);
    return std::nullopt;
  } catch (const StateError& error) {
    return error.what();
  }
}

/// The lock with one thing changed, and a checksum that is right.
std::string with(const std::string& from, const std::string& to) {
  std::string text = to_text(some_lock());
  std::string body = text.substr(text.find('\n') + 1);
  const std::size_t place = body.find(from);
  REQUIRE(place != std::string::npos);
  body.replace(place, from.size(), to);
  std::uint32_t crc = 0xFFFFFFFF;  // CRC-32, a bit at a time
  for (const char c : body) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const bool carry = ((crc ^ (static_cast<unsigned char>(c) >> bit)) & 1U) != 0;
      crc = (crc >> 1U) ^ (carry ? 0xEDB88320U : 0U);
    }
  }
  char head[64];
  std::snprintf(head, sizeof head, "driftd-lock 1 %08x %zu\n", ~crc, body.size());
  return head + body;
}

}  // namespace

TEST_CASE("a saved lock reads back as it was") {
  const SavedLock lock = read_saved_lock(to_text(some_lock()));
  CHECK(to_text(lock) == to_text(some_lock()));
  CHECK(lock.session == "0123456789abcdef");
  CHECK(lock.lock_id == 3);
  CHECK_FALSE(lock.lost);
  CHECK(lock.meaning.at("camera") == "maker model 7");
  CHECK(lock.spot_sigma_px == 1.35);
  CHECK(lock.roi_px == 13);
  CHECK(lock.saturation_adu == 4000);
  CHECK(lock.chosen);
  CHECK(lock.total_nm.x == -18.25);
  CHECK(lock.carried_nm.y == -50);
  CHECK(lock.travelled_nm.x == 300);
  CHECK(lock.set_nm.x == -70);
  CHECK(lock.set_nm.y == 45);
  REQUIRE(lock.markers.size() == 2);
  CHECK(lock.markers[0].role == control::MarkerRole::Tracking);
  CHECK(lock.markers[1].role == control::MarkerRole::Witness);
  CHECK(lock.markers[1].id == 9);
  CHECK(lock.markers[1].reference.place_px.y == 540.125);
  CHECK(lock.markers[1].reference.amplitude_adu == 650);
  CHECK(lock.markers[1].reference.variance_nm2 == 0.03);
  CHECK_FALSE(lock.markers[1].reference.trusted);
  REQUIRE(lock.stage);
  CHECK(lock.stage->position_nm.at("2") == 49987.25);
  CHECK(lock.time.boot_id == "b");

  SavedLock without = some_lock();
  without.stage.reset();
  CHECK_FALSE(read_saved_lock(to_text(without)).stage);
}

TEST_CASE("the lock of z and the markers' references of z are kept where there are any") {
  CHECK_FALSE(read_saved_lock(to_text(some_lock())).z);
  CHECK(std::isnan(read_saved_lock(to_text(some_lock())).markers[0].reference.z_nm));
  SavedLock with_z = some_lock();
  with_z.markers[0].reference.z_nm = -37.5;
  with_z.markers[0].reference.z_variance_nm2 = 0.25;
  with_z.z = SavedAxial{.lock_id = 4,
                        .reading = "astigmatic curve.yaml",
                        .total_nm = 12.5,
                        .carried_nm = -3,
                        .travelled_nm = 40,
                        .set_nm = 60};
  const SavedLock lock = read_saved_lock(to_text(with_z));
  CHECK(lock.markers[0].reference.z_nm == -37.5);
  CHECK(lock.markers[0].reference.z_variance_nm2 == 0.25);
  CHECK(std::isnan(lock.markers[1].reference.z_nm));
  REQUIRE(lock.z);
  CHECK(lock.z->lock_id == 4);
  CHECK(lock.z->reading == "astigmatic curve.yaml");
  CHECK(lock.z->total_nm == 12.5);
  CHECK(lock.z->carried_nm == -3);
  CHECK(lock.z->travelled_nm == 40);
  CHECK(lock.z->set_nm == 60);
}

TEST_CASE("a saved lock that was cut short anywhere is refused") {
  const std::string text = to_text(some_lock());
  for (std::size_t size = 0; size < text.size(); ++size) REQUIRE(refusal_of(text.substr(0, size)));
  CHECK(refusal_of(text + text));
  CHECK(refusal_of(text + "\n"));
}

TEST_CASE("a saved lock with any one bit flipped is refused") {
  const std::string text = to_text(some_lock());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string other = text;
      other[i] = static_cast<char>(static_cast<unsigned char>(other[i]) ^ (1U << bit));
      INFO(i << " bit " << bit);
      REQUIRE(refusal_of(other));
    }
  }
}

TEST_CASE("a saved lock of another version is refused by its version") {
  std::string text = to_text(some_lock());
  text.replace(text.find(" 1 "), 3, " 2 ");
  CHECK(refusal_of(text).value_or("").find("its version is 2, this driftd reads 1") == 0);
  CHECK(refusal_of("driftd-lock").has_value());
  CHECK(refusal_of("%PDF-1.4").value_or("").find("does not begin") != std::string::npos);
  CHECK(refusal_of("").value_or("") == "it is empty");
}

TEST_CASE("a saved lock whose checksum is right but whose values make no sense is refused") {
  CHECK_FALSE(refusal_of(with("\"lock_id\": 3", "\"lock_id\": 4")));
  CHECK(refusal_of(with("\"lock_id\": 3", "\"lock_id\": \"3\"")));
  CHECK(refusal_of(with("\"lock_id\"", "\"look_id\"")));
  CHECK(refusal_of(with("-18.25", "1e300")));
  CHECK(refusal_of(with("-18.25", "null")));
  CHECK(refusal_of(with("1030.25", "-1e7")));
  CHECK(refusal_of(with("\"sigma_px\": 1.3", "\"sigma_px\": -1.3")));
  CHECK(refusal_of(with("{\n", "[")));
  SavedLock none = some_lock();
  none.markers.clear();
  CHECK(refusal_of(to_text(none)).value_or("") == "it holds 0 markers");
  SavedLock many = some_lock();
  many.markers.resize(control::kMaxMarkers + 1);
  CHECK(refusal_of(to_text(many)));
  many.markers.resize(control::kMaxMarkers);
  CHECK_FALSE(refusal_of(to_text(many)));
}

TEST_CASE("how long ago: by the computer's uptime, or the wall clock where it was started anew") {
  const SavedTime then{.wall_ns = 5'000'000'000, .uptime_ns = 2'000'000'000, .boot_id = "b"};
  CHECK(seconds_between(then, {.wall_ns = 1, .uptime_ns = 5'500'000'000, .boot_id = "b"}) == 3.5);
  CHECK(seconds_between(then, {.wall_ns = 9'000'000'000, .uptime_ns = 1, .boot_id = "c"}) == 4.0);
  CHECK_FALSE(seconds_between(then, {.wall_ns = 4'000'000'000, .uptime_ns = 1, .boot_id = "c"}));
  SavedTime unknown = then;
  unknown.boot_id.clear();
  CHECK(seconds_between(unknown, {.wall_ns = 9'000'000'000, .uptime_ns = 1}) == 4.0);
  const SavedTime now = SavedTime::now();
  CHECK_FALSE(now.boot_id.empty());
  CHECK(seconds_between(now, SavedTime::now()).value_or(-1) >= 0);
}

TEST_CASE("a state file is replaced whole, and one that cannot be written stays as it was") {
  const StateFolder folder;
  const auto file = folder.path / "deeper/lock.state";
  CHECK_FALSE(read_state(file));
  write_state(file, "one");
  CHECK(read_state(file) == "one");
  write_state(file, std::string(100'000, 'x'));
  CHECK(read_state(file) == std::string(100'000, 'x'));
  CHECK(std::distance(std::filesystem::directory_iterator(file.parent_path()), {}) == 1);

  std::filesystem::create_directory(file.string() + ".new");  // in the way of the next one
  CHECK_THROWS_WITH(write_state(file, "two"), contains("lock.state.new"));
  CHECK(content_of(file).size() == 100'000);
  std::filesystem::remove(file.string() + ".new");

  CHECK_THROWS_WITH(write_state(file / "below", "two"), contains("deeper/lock.state"));
  CHECK_THROWS_WITH(write_state(file.parent_path(), "two"), contains("cannot replace"));
  CHECK_FALSE(std::filesystem::exists(folder.path / "deeper.new"));
  remove_state(file);
  CHECK_FALSE(read_state(file));
  remove_state(file);
}

TEST_CASE("a state file that a full disk takes only half of is an error, and the old one stays") {
  const StateFolder folder;
  const auto file = folder.path / "lock.state";
  write_state(file, "one");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string problem;
  try {
    write_state(file, std::string(3000, 'x'));
  } catch (const std::exception& error) {
    problem = error.what();
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, SIG_DFL);
  CHECK_THAT(problem, contains("cannot write"));
  CHECK(read_state(file) == "one");
  CHECK_FALSE(std::filesystem::exists(file.string() + ".new"));
}
