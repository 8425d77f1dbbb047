// SPDX-License-Identifier: MIT
// Places by command: what is saved, and how the lock at one begins or why it does not.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/state_file.hpp"
#include "daemon/places/places.hpp"
#include "marker_keeper_fixture.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using control::LockState;
using nlohmann::json;

namespace {

struct Fixture : KeeperFixture {
  StateFolder folder;
  StageChannel stage{config, "session", played.ports, loop, told.log};
  CorrectionGate gate;
  LockOrders orders{{}, gate, loop, [this] { return keeper.too_few(); }};
  LockSaver memory{config, "session", camera,   loop,
                   stage,  stage,     told.log, [this] { return keeper.sizes(); }};
  LockRecovery interrupted{config, memory, camera,   loop,
                           stage,  stage,  told.log, [](AxisGroup) {
                             return true; }};
  Places places{config,
                folder.path / "places",
                {camera, loop, memory, interrupted, keeper, orders},
                told.log};
  std::uint64_t frame_id = 10;

  Fixture() {
    config.optics.pixel_size_nm = 100;
    config.markers.witness_fraction = 0;
    source.described.description = "maker model 7 at 10.0.0.1";
    camera.look();
    settle();
    measure(kSpots, {});
  }
  void turn_all(std::int64_t later_ms = 1) {
    turn(later_ms);
    orders.turn(now_ns);
    places.turn(now_ns);
  }
  /// A frame of the markers in use, at these places, which tell this drift.
  void measure(const Spots& spots, control::Vec2 drift_nm) {
    const auto& markers = last(Kind::Markers)->markers->estimator.markers();
    played.report.drift.valid = true;
    played.report.drift.drift_nm = drift_nm;
    played.report.tracked_ns = now_ns;
    MarkersReport& out = played.ports.markers.writing();
    out.frame_id = ++frame_id;
    out.commands_taken = played.report.commands_taken;
    out.count = markers.size();
    for (std::size_t i = 0; i < markers.size(); ++i) {
      out.entries[i] = {};
      out.entries[i].marker = markers[i];
      out.entries[i].reference = {.place_px = {markers[i].x_px, markers[i].y_px},
                                  .sigma_px = 1.3,
                                  .amplitude_adu = 800,
                                  .variance_nm2 = 0.5,
                                  .trusted = i != 4};
      out.entries[i].result.health = control::MarkerHealth::Good;
      out.entries[i].observation = {.fitted = true,
                                    .x_px = 1000 + spots.at(i).first,
                                    .y_px = 500 + spots.at(i).second,
                                    .x_sd_px = 0.03F,
                                    .y_sd_px = 0.05F,
                                    .sigma_px = 1.4F,
                                    .amplitude_adu = 700};
    }
    played.ports.markers.publish();
    turn_all();
  }
  bool answered(const Asker& asker) {
    return turned_until([&] { return asker.answered(); }, [this] { turn_all(0); });
  }
  Asker saved(const std::string& name, bool replace = false) {
    Asker asker;
    places.save(name, "", replace, asker.answer(), now_ns);
    REQUIRE(answered(asker));
    return asker;
  }
  std::string save_refused() {
    try {
      places.save(
          "here", "", true, [](const Outcome&) {}, now_ns);
    } catch (const CommandRefused& refused) {
      return refused.text;
    }
    return {};
  }
  SavedPlace kept(const std::string& name = "here") {
    return read_saved_place(read_state(folder.path / "places" / (name + ".place")).value());
  }
  void keep(const SavedPlace& place) {
    write_state(folder.path / "places" / "here.place", to_text(place));
  }
  /// The place is asked for, and this picture is what the camera shows.
  void go(Asker& asker, const Spots& spots) {
    places.lock("here", asker.answer(), now_ns);
    REQUIRE(turned_until([&] { return asker.answered() || keeper.find_pending(); },
                         [this] { turn_all(0); }));
    turn_all();
    show(spots, ++frame_id);
  }
  bool adopted_since(std::size_t sets) {
    return turned_until([&] { return sets_taken() > sets; }, [this] { turn_all(0); });
  }
  std::size_t sets_taken() const {
    std::size_t sets = 0;
    for (const LoopCommand& command : played.taken) sets += command.kind == Kind::Markers ? 1 : 0;
    return sets;
  }
  std::size_t locks_taken() const {
    std::size_t locks = 0;
    for (const LoopCommand& command : played.taken) locks += command.kind == Kind::Lock ? 1 : 0;
    return locks;
  }
  std::vector<std::string> actions() const {
    std::vector<std::string> actions;
    for (const json& event : told.events)
      if (event["code"] == "place") actions.push_back(event["action"]);
    return actions;
  }
};

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

/// The folder's thread waits for the disk from save_on_it() to answer(): to open a FIFO for writing
/// waits for a reader.
struct StuckDisk {
  int reader = -1;
  Asker asker;  ///< of the place that is saved
  std::optional<Fixture> f{std::in_place};

  ~StuckDisk() {
    answer();
    f.reset();
    if (reader >= 0) close(reader);
  }
  std::filesystem::path fifo() const { return f->folder.path / "places" / "stuck.place.new"; }
  void save_on_it() {
    std::filesystem::create_directories(fifo().parent_path());
    REQUIRE(mkfifo(fifo().c_str(), 0600) == 0);
    f->places.save("stuck", "", false, asker.answer(), f->now_ns);
  }
  void answer() {
    if (reader < 0) reader = open(fifo().c_str(), O_RDONLY | O_NONBLOCK);
  }
};

}  // namespace

TEST_CASE("idle, the newest fits of the good markers are the place") {
  Fixture f;
  f.measure(moved(kSpots, 0.2, -0.1), {20, -10});
  const Asker asker = f.saved("here");
  REQUIRE(asker.code().empty());
  CHECK(asker.reply().fields["place"]["markers"] == 5);
  CHECK(asker.reply().fields["place"]["name"] == "here");
  const SavedPlace place = f.kept();
  CHECK(place.seen.markers.size() == 5);
  const control::MarkerReference& first = place.seen.markers[0].reference;
  CHECK(first.place_px.x == Approx(1030.5));
  CHECK(first.place_px.y == Approx(525.5));
  CHECK(first.sigma_px == Approx(1.4));
  CHECK(first.variance_nm2 == Approx(16));
  CHECK(place.seen.meaning.at("camera") == "maker model 7");
  CHECK(f.actions() == std::vector<std::string>{"saved"});
}

TEST_CASE("locked, the trusted references are, if the sample is there") {
  Fixture f;
  f.config.gate.tolerance_nm = 2;
  f.played.tell_state(LockState::Locked);
  f.measure(moved(kSpots, 0.2, -0.1), {0, 7.9});
  REQUIRE(f.saved("here").code().empty());
  const SavedPlace place = f.kept();
  CHECK(place.seen.markers.size() == 4);
  CHECK(place.seen.markers[0].reference.variance_nm2 == 0.5);
  f.measure(kSpots, {0, -8.1});
  CHECK(has(f.save_refused(), "8.1 nm (x +0.0, y -8.1) from where the lock holds it"));
}

TEST_CASE("where nobody knows where the sample is, nothing is saved") {
  Fixture f;
  for (const LockState state : {LockState::Referencing, LockState::Holding, LockState::Lost,
                                LockState::Fault, LockState::Calibrating}) {
    f.played.tell_state(state);
    f.turn_all();
    CHECK(has(f.save_refused(), control::name_of(state)));
  }
  f.played.tell_state(LockState::Idle);
  f.played.report.drift.valid = false;
  f.turn_all();
  CHECK(has(f.save_refused(), "too few markers"));
  f.measure(kSpots, {});
  f.now_ns += 600 * kMs;
  CHECK(has(f.save_refused(), "no frame"));
  f.measure(kSpots, {});
  f.source.connected = false;
  CHECK(has(f.save_refused(), "camera is away"));
  f.source.connected = true;
  for (std::size_t i = 0; i < 3; ++i)
    f.played.ports.markers.writing().entries[i].result.health = control::MarkerHealth::Outlier;
  f.played.ports.markers.publish();
  f.turn_all();
  CHECK(has(f.save_refused(), "2 markers are good enough for a place, and 3 are needed"));
}

TEST_CASE("a lock at a place goes back to its references from wherever the sample is") {
  Fixture f;
  f.saved("here");
  Asker asker;
  const std::size_t sets = f.sets_taken();
  f.go(asker, moved(kSpots, 12, -9));
  CHECK(f.places.was_asked());
  REQUIRE(f.adopted_since(sets));
  const MarkerSet& set = *f.last(Kind::Markers)->markers;
  CHECK(set.estimator.reference(0).place_px.x == Approx(1030.3));
  CHECK(set.tracker.origin(0).x_px == 1036);
  CHECK_FALSE(asker.answered());
  CHECK(f.locks_taken() == 0);
  f.measure(moved(kSpots, 12, -9), {1200, -900});
  REQUIRE(f.answered(asker));
  CHECK(asker.text().empty());
  const LoopCommand* lock = f.last(Kind::Lock);
  REQUIRE(lock != nullptr);
  REQUIRE(lock->resumption);
  CHECK(lock->resumption->carried_nm.x == 0);
  CHECK(lock->resumption->drift_nm.x == 1200);
  CHECK(lock->resumption->largest_move_nm == f.config.lock.max_jump_nm);
  const json fields = asker.reply().fields;
  CHECK(fields["place"] == "here");
  CHECK(fields["moved_y_nm"] == -900);
  CHECK(fields["turned_deg"] == 0);
  CHECK(fields["found"] == 5);
  CHECK(fields["lock_id"] == 1);
  CHECK_FALSE(f.places.pending());
  // Told when it is there, once.
  f.played.tell_state(LockState::Locked);
  f.turn_all();
  CHECK(f.actions() == std::vector<std::string>{"saved", "going"});
  f.played.report.gate.in_lock = true;
  f.played.tell();
  f.turn_all();
  f.turn_all();
  CHECK(f.actions() == std::vector<std::string>{"saved", "going", "reached"});
}

TEST_CASE("a lock that ends on the way never reached its place, and the next one is not told to") {
  Fixture f;
  f.saved("here");
  Asker asker;
  const std::size_t sets = f.sets_taken();
  f.go(asker, kSpots);
  REQUIRE(f.adopted_since(sets));
  f.measure(kSpots, {});
  REQUIRE(f.answered(asker));
  f.played.tell_state(LockState::Idle);
  f.turn_all();
  f.played.report.gate.in_lock = true;
  f.played.report.lock_id = 2;
  f.played.tell_state(LockState::Locked);
  f.turn_all();
  CHECK(f.actions() == std::vector<std::string>{"saved", "going"});
}

TEST_CASE("what the limits do not reach is refused before anything changes") {
  Fixture f;
  f.saved("here");
  const std::size_t sets = f.sets_taken();
  for (const bool travel : {false, true}) {
    f.config.control.range_limit_nm = travel ? 5000 : 1100;
    f.config.control.travel_limit_nm = 5000;
    f.played.report.travelled_nm = {travel ? -3900.0 : 0.0, 0};
    f.played.tell();
    Asker asker;
    f.go(asker, moved(kSpots, 12, -9));
    REQUIRE(f.answered(asker));
    CHECK(asker.code() == "refused");
    CHECK(has(asker.text(), "the sample is 1500"));
    CHECK(has(asker.text(),
              travel ? "control.travel_limit_nm is 5000" : "control.range_limit_nm is 1100"));
  }
  CHECK(f.sets_taken() == sets);
  CHECK(f.locks_taken() == 0);
}

TEST_CASE("another sample is not found, and the markers in use stay") {
  Fixture f;
  f.saved("here");
  const std::size_t sets = f.sets_taken();
  Asker asker;
  f.go(asker, {{20.4, 30.2}, {50.9, 90.1}, {80.3, 25.8}, {110.2, 60.6}, {65.5, 55.1}});
  REQUIRE(f.answered(asker));
  CHECK(asker.code() == "not_found");
  CHECK(has(asker.text(), "the place `here` was not found in the image: of 5 spots at most"));
  CHECK(f.sets_taken() == sets);
}

TEST_CASE("markers measured elsewhere than they were found are not gone back with") {
  for (const bool valid : {true, false}) {
    Fixture f;
    f.saved("here");
    Asker asker;
    const std::size_t sets = f.sets_taken();
    f.go(asker, kSpots);
    REQUIRE(f.adopted_since(sets));
    f.played.report.drift.valid = false;
    if (valid)
      f.measure(kSpots, {0, 250});
    else
      f.played.tell_markers(++f.frame_id, {});
    REQUIRE(f.answered(asker));
    CHECK(asker.code() == "refused");
    CHECK(has(asker.text(), valid ? "measured 250.0 nm" : "not measured"));
    CHECK(f.locks_taken() == 0);
  }
}

TEST_CASE("unlock while a place is looked for ends it, whatever the search finds") {
  for (const bool adopted : {false, true}) {
    Fixture f;
    f.saved("here");
    Asker asker;
    const std::size_t sets = f.sets_taken();
    f.go(asker, kSpots);
    if (adopted) REQUIRE(f.adopted_since(sets));
    f.places.give_up();
    CHECK(asker.code() == "refused");
    CHECK_FALSE(f.places.pending());
    for (int i = 0; i < 50; ++i) f.turn_all();
    f.measure(kSpots, {});
    f.turn_all();
    CHECK(asker.answers == 1);
    CHECK(f.locks_taken() == 0);
  }
}

TEST_CASE("a lock engaged meanwhile, a second place and other states are refused") {
  Fixture f;
  f.saved("here");
  Asker asker;
  f.go(asker, kSpots);
  CHECK(refused_at_once([&] {
          f.places.lock(
              "here", [](const Outcome&) {}, f.now_ns);
        }) == "busy");
  f.played.tell_state(LockState::Referencing);
  REQUIRE(f.answered(asker));
  CHECK(has(asker.text(), "engaged meanwhile"));
  for (const LockState state : {LockState::Locked, LockState::Calibrating, LockState::Lost}) {
    f.played.tell_state(state);
    f.turn_all();
    CHECK(refused_at_once([&] {
            f.places.lock(
                "here", [](const Outcome&) {}, f.now_ns);
          }) == (state == LockState::Lost ? "" : "refused"));
  }
}

TEST_CASE("places of another image, damaged ones and those that are not there are told") {
  Fixture f;
  f.saved("here");
  const SavedPlace place = f.kept();
  for (const char* name : {"camera", "image", "camera.pixel_format", "optics.pixel_size_nm"}) {
    SavedPlace other = place;
    other.seen.meaning[name] = "another";
    f.keep(other);
    Asker asker;
    f.places.lock("here", asker.answer(), f.now_ns);
    REQUIRE(f.answered(asker));
    CHECK(has(asker.text(), std::string(name) + " was another, and is "));
  }
  SavedPlace calibrated = place;
  calibrated.seen.meaning["stage.image_to_stage"] = calibrated.seen.meaning["markers.list"] = "x";
  f.keep(calibrated);
  Asker list;
  f.places.list(list.answer(), f.now_ns);
  REQUIRE(f.answered(list));
  CHECK(list.reply().fields["places"][0]["problem"] == "");
  write_state(f.folder.path / "places" / "here.place", "driftd-place 2 0 0\n");
  Asker damaged, missing;
  f.places.lock("here", damaged.answer(), f.now_ns);
  REQUIRE(f.answered(damaged));
  CHECK(has(damaged.text(), "its version is 2"));
  f.places.show("there", missing.answer(), f.now_ns);
  REQUIRE(f.answered(missing));
  CHECK(missing.text() ==
        "the place `there` is not used: there is none of this name; there are here");
  CHECK(refused_at_once([&] {
          f.places.remove(
              "../x", [](const Outcome&) {}, f.now_ns);
        }) == "bad_request");
}

TEST_CASE("orders beyond what waits for the disk are refused, and all are answered at the end") {
  StuckDisk disk;
  Fixture& f = *disk.f;
  disk.save_on_it();
  std::vector<Asker> askers(300);
  std::size_t busy = 0;
  for (Asker& asker : askers) {
    try {
      f.places.list(asker.answer(), f.now_ns);
    } catch (const CommandRefused& refused) {
      busy += refused.code == Refusal::Busy ? 1 : 0;
      asker.answer()(refused);
    }
  }
  // The disk's thread may or may not have taken the first order from the queue.
  CHECK(askers.size() - busy <= PlaceShelf::kMostWaiting);
  CHECK(askers.size() - busy >= PlaceShelf::kMostWaiting - 1);
  f.places.refuse_pending({Refusal::Stopping, "it ends"});
  for (const Asker& asker : askers) CHECK(asker.answers == 1);
}

TEST_CASE("a disk that does not answer is told, and a lock does not happen later") {
  StuckDisk disk;
  Fixture& f = *disk.f;
  f.saved("here");
  disk.save_on_it();
  Asker asker;
  f.places.lock("here", asker.answer(), f.now_ns);
  f.now_ns += Places::kPatienceNs + 1;
  f.turn_all(0);
  f.turn_all(0);  // one late order a turn
  REQUIRE(asker.answered());
  CHECK(asker.code() == "timeout");
  CHECK(disk.asker.code() == "timeout");  // it is stuck
  disk.answer();
  Asker list;
  f.places.list(list.answer(), f.now_ns);
  REQUIRE(f.answered(list));  // so the lock's order has been carried out, too
  CHECK(asker.answers == 1);
  CHECK_FALSE(f.keeper.find_pending());
  CHECK(f.locks_taken() == 0);
}
