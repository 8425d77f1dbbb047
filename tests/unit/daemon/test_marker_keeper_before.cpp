// SPDX-License-Identifier: MIT
// The markers of an interrupted lock go before any others.
#include <memory>
#include <string>
#include <vector>

#include "base/state_file.hpp"
#include "marker_keeper_fixture.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;

namespace {

constexpr std::uint32_t kListedId = 51;  ///< one of the lock's markers has it, too

/// A lock on the fixture's spots was interrupted.
struct Fixture : KeeperFixture {
  StateFolder folder;
  StageChannel stage{config, "session", played.ports, loop, told.log};
  std::unique_ptr<LockSaver> memory;
  std::unique_ptr<LockRecovery> interrupted;
  std::unique_ptr<MarkerKeeper> before;

  explicit Fixture(config::MarkerMode mode = config::MarkerMode::Auto, int roi_px = 13) {
    config.markers.mode = mode;
    if (mode == config::MarkerMode::List)
      config.markers.list = {{kListedId, 1050, 550, control::MarkerRole::Tracking}};
    config.fitter.roi_px = roi_px == 13 ? 13 : 0;
    SavedLock lock = some_lock();
    lock.time = SavedTime::now();
    lock.meaning = meaning_of(config, source.described);
    lock.spot_sigma_px = roi_px == 13 ? 0 : 1.3;
    lock.roi_px = roi_px == 13 ? 0 : roi_px;
    lock.saturation_adu = 0;
    lock.chosen = false;
    lock.markers.clear();
    for (std::size_t i = 0; i < kSpots.size(); ++i) {
      lock.markers.push_back(
          {.id = static_cast<std::uint32_t>(50 + i),
           .role = i == 4 ? control::MarkerRole::Witness : control::MarkerRole::Tracking,
           .reference = {.place_px = {1000 + kSpots[i].first, 500 + kSpots[i].second},
                         .sigma_px = 1.3,
                         .amplitude_adu = 800,
                         .variance_nm2 = 0.5,
                         .trusted = true}});
    }
    write_state(lock_file(config), to_text(lock));
    memory = std::make_unique<LockSaver>(config, "session", camera, loop, stage, stage, told.log,
                                         [] { return MarkerSizes{}; });
    interrupted = std::make_unique<LockRecovery>(config, *memory, camera, loop, stage, stage,
                                                 told.log, [](AxisGroup) { return true; });
    interrupted->take(memory->recall());
    before =
        std::make_unique<MarkerKeeper>(config, fitter, camera, loop, told.log, interrupted.get());
    turned = before.get();
  }
  /// Its markers were, by command, or not.
  void chosen(bool chosen) {
    SavedLock lock = read_saved_lock(*read_state(lock_file(config)));
    lock.chosen = chosen;
    interrupted->take(lock);
  }
  const MarkerSet& adopted() const { return *last(Kind::Markers)->markers; }
};

}  // namespace

TEST_CASE("the markers of an interrupted lock are found where they went, with their references") {
  Fixture f;
  f.turn();
  f.show(moved(kSpots, 6, -4));
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  const MarkerSet& set = f.adopted();
  REQUIRE(set.estimator.markers().size() == 5);
  CHECK(set.estimator.markers()[1].id == 51);
  CHECK(set.estimator.markers()[4].role == control::MarkerRole::Witness);
  CHECK(set.estimator.reference(1).place_px.x == 1095.8);
  CHECK(set.estimator.reference(1).variance_nm2 == 0.5);
  CHECK(set.estimator.reference(1).trusted);
  // The ROIs are where they are now: 13 px around (1101.8, 536.2).
  CHECK(set.tracker.origin(1).x_px == 1096);
  CHECK(set.tracker.origin(1).y_px == 530);
  CHECK(f.interrupted->status()["phase"] == "found");
  CHECK(f.told.codes() == std::vector<std::string>{"lock_interrupted", "markers_found"});
}

TEST_CASE("where others are in the image they are taken, and the interrupted lock is told absent") {
  Fixture f;
  f.turn();
  f.show({{20.4, 30.2}, {50.9, 90.1}, {80.3, 25.8}, {110.2, 60.6}, {65.5, 55.1}});
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  CHECK(f.adopted().estimator.markers()[0].id == 1);
  CHECK(f.interrupted->status()["phase"] == "absent");
  CHECK(f.told.codes() ==
        std::vector<std::string>{"lock_interrupted", "lock_interrupted", "markers_found"});
}

TEST_CASE("in the dark both are looked for again") {
  Fixture f;
  f.turn();
  f.show({});
  REQUIRE(f.until([&] { return f.told.codes().back() == "markers_not_found"; }));
  CHECK(f.interrupted->status()["phase"] == "searching");
  f.turn(1000);
  f.show(kSpots, 2);
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  CHECK(f.interrupted->status()["phase"] == "found");
}

TEST_CASE("listed markers wait for those of the interrupted lock, and are taken without them") {
  for (const bool there : {true, false}) {
    Fixture f(config::MarkerMode::List);
    f.turn();
    f.turn();
    CHECK(f.last(Kind::Markers) == nullptr);
    f.show(there ? moved(kSpots, 3, 3) : Spots{{20.4, 30.2}});
    REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
    CHECK(f.adopted().estimator.markers()[0].id == (there ? 50U : kListedId));
    // All may be dark: they are looked for until those listed are seen without them.
    CHECK(f.interrupted->status()["phase"] == (there ? "found" : "searching"));
    if (there) continue;
    f.played.report.drift.valid = true;
    f.played.report.tracked_ns = f.played.report.frame_ns;
    f.turn(1000);
    f.show(Spots{{20.4, 30.2}}, 2);
    REQUIRE(f.until([&] { return f.interrupted->status()["phase"] == "absent"; }));
  }
}

TEST_CASE("a ROI that was chosen before is had again, with a fitter for it") {
  Fixture f(config::MarkerMode::Auto, 15);
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  REQUIRE(f.adopted().fitter != nullptr);
  CHECK(f.adopted().fitter->roi_px() == 15);
  CHECK(f.before->sizes().roi_px == 15);
  CHECK(f.before->sizes().spot_sigma_px == 1.3);
}

TEST_CASE("a command to find markers keeps those of the interrupted lock where they are there") {
  Fixture f;
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  std::uint64_t frame = 1;
  const auto find = [&](const Spots& spots) {
    Asker asker;
    const std::size_t told = f.told.events.size();
    f.before->find(asker.answer(), f.now_ns);
    f.turn();
    f.show(spots, ++frame);
    REQUIRE(f.until(
        [&] { return f.told.codes().back() == "markers_found" && f.told.events.size() > told; }));
    f.turn();
    f.played.tell_markers(++frame, f.adopted().estimator.markers());
    f.turn();
    REQUIRE(asker.answered());
    return asker.reply().fields.value("offer", "");
  };
  CHECK_THAT(find(kSpots), contains(", interrupted ") && contains(" ago"));
  CHECK(f.interrupted->status()["phase"] == "found");
  CHECK(f.adopted().estimator.markers()[0].id == 50);
  CHECK(f.adopted().estimator.reference(1).trusted);
  // Where others are they are taken, and it is said; it is found again once its own are back.
  const Spots others{{20.4, 30.2}, {50.9, 90.1}, {80.3, 25.8}, {110.2, 60.6}, {65.5, 55.1}};
  CHECK_THAT(find(others), contains("its markers were not found in the image (") &&
                               contains("kept until another lock holds") &&
                               contains("`driftctl markers --find` looks for its markers again"));
  CHECK(f.interrupted->status()["phase"] == "absent");
  CHECK(f.adopted().estimator.markers()[0].id == 1);
  find(kSpots);
  CHECK(f.interrupted->status()["phase"] == "found");
  CHECK(f.adopted().estimator.markers()[0].id == 50);
  // Forgotten, others may have their place.
  f.interrupted->forget();
  CHECK(find(kSpots).empty());
  CHECK(f.adopted().estimator.markers()[0].id == 1);
}

TEST_CASE("a choice puts the interrupted lock aside: nothing of its references is used any more") {
  Fixture f;
  f.turn();
  f.show(moved(kSpots, 6, -4));
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  f.turn();
  f.played.report.drift.valid = true;
  f.played.report.tracked_ns = f.played.report.time_ns = 5;
  f.played.tell_markers(2, f.adopted().estimator.markers());
  f.turn();
  REQUIRE(f.interrupted->asks());
  REQUIRE(refused_at_once([&] { f.interrupted->resumption(); }).empty());
  Asker asker;
  f.before->choose({.add = {}, .remove = {50}, .tracking = {}, .witness = {}}, asker.answer(),
                   f.now_ns);
  f.turn();
  // From the order to the loop on, before it has taken that.
  CHECK_FALSE(f.interrupted->asks());
  CHECK(refused_at_once([&] { f.interrupted->resumption(); }) == "refused");
  CHECK(f.interrupted->status()["phase"] == "absent");
  f.turn();
  REQUIRE(f.adopted().estimator.markers().size() == 4);
  CHECK(f.adopted().estimator.reference(0).sigma_px == 0);
  f.played.tell_markers(3, f.adopted().estimator.markers());
  f.turn();
  CHECK_THAT(asker.reply().fields["offer"].get<std::string>(),
             contains("markers were chosen since"));
  CHECK(refused_at_once([&] { f.interrupted->resumption(); }) == "refused");
}

TEST_CASE("a choice of markers that others took the place of meanwhile changes none of these") {
  Fixture f(config::MarkerMode::List);
  f.turn();
  f.show({});  // in the dark those listed are followed, and the lock's looked for on
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  f.turn();
  f.played.tell_markers(2, f.given());
  f.turn(1000);
  REQUIRE(f.played.ports.frame_copy.search.pending());
  f.show(kSpots, 3);
  f.before->turn(f.now_ns);  // the worker has it
  Asker asker;
  f.before->choose({.add = {}, .remove = {}, .tracking = {}, .witness = {kListedId}},
                   asker.answer(), f.now_ns);
  REQUIRE(f.until([&] { return asker.answered(); }));
  CHECK(asker.code() == "refused");
  CHECK_THAT(asker.text(), contains("other markers were taken into use meanwhile"));
  REQUIRE(f.given().size() == 5);
  CHECK(f.given()[1].id == kListedId);
  CHECK(f.given()[1].role == control::MarkerRole::Tracking);
  CHECK_FALSE(f.before->are_chosen());
}

TEST_CASE("markers that were chosen are so again after a restart, in their roles") {
  for (const bool chosen : {false, true}) {
    Fixture f;
    f.chosen(chosen);
    f.turn();
    f.show(kSpots);
    REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
    CHECK(f.before->are_chosen() == chosen);
    CHECK(f.before->sizes().chosen == chosen);
    CHECK(f.adopted().roles_stay == chosen);
  }
}

TEST_CASE("after another lock that did not engage its markers are had again, others are left") {
  for (const bool there : {true, false}) {
    Fixture f;
    f.turn();
    f.show(kSpots);
    REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
    CorrectionGate gate;
    LockOrders orders{{}, gate, f.loop, [] { return std::string(); }};
    for (const auto state : {control::LockState::Referencing, control::LockState::Idle}) {
      f.played.tell_state(state, control::LockReason::ReferenceTimeout);
      f.turn();
      f.interrupted->turn(orders, f.now_ns);
    }
    REQUIRE(f.interrupted->status()["phase"] == "searching");
    f.played.taken.clear();
    f.turn(1000);
    f.show(there ? kSpots : Spots{{20.4, 30.2}, {50.9, 90.1}, {80.3, 25.8}, {110.2, 60.6}}, 2);
    const char* phase = there ? "found" : "absent";
    REQUIRE(f.until([&] { return f.interrupted->status()["phase"] == phase; }));
    f.turn();
    CHECK((f.last(Kind::Markers) != nullptr) == there);
  }
}

TEST_CASE("markers are looked for after a loss as in idle, and not while a lock is engaged") {
  using control::LockState;
  Fixture f;
  Asker asker;
  for (const LockState state : {LockState::Referencing, LockState::Locked, LockState::Holding,
                                LockState::Fault, LockState::Calibrating}) {
    f.played.tell_state(state);
    f.turn();
    CHECK(refused_at_once([&] { f.before->find(asker.answer(), f.now_ns); }) == "refused");
  }
  f.played.tell_state(LockState::Lost);
  f.turn();
  CHECK(refused_at_once([&] { f.before->find(asker.answer(), f.now_ns); }).empty());
}

TEST_CASE("more markers than the fitter in use holds come with one that holds them") {
  Fixture f;
  f.config.markers.max_count = 3;
  f.fitter.fitter = fitter::make_cpu_live_fitter(13, 3, {});
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  REQUIRE(f.adopted().estimator.markers().size() == 5);
  REQUIRE(f.adopted().fitter != nullptr);
  CHECK(f.adopted().fitter->capacity() >= 5);
  // Those that are found later are as many as configured, and have room.
  f.interrupted->forget();
  Asker asker;
  f.before->find(asker.answer(), f.now_ns);
  f.turn();
  f.show(kSpots, 2);
  REQUIRE(f.until([&] { return f.last(Kind::Markers)->markers->estimator.markers().size() == 3; }));
  CHECK(f.adopted().fitter->capacity() >= 3);
}

TEST_CASE("more markers than a resident kernel holds are refused with how to have them") {
  Fixture f;
  f.config.fitter.backend = config::Backend::Auto;
  f.config.cuda.mode = fitter::CudaMode::Resident;
  f.fitter.fitter = fitter::make_cpu_live_fitter(13, 3, {});
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  CHECK(f.adopted().estimator.markers()[0].id == 1);
  CHECK(f.interrupted->status().is_null());
  REQUIRE(f.told.codes()[1] == "state_ignored");
  CHECK_THAT(f.told.events[1]["text"].get<std::string>(), contains("it has 5 markers") &&
                                                              contains("made for 3") &&
                                                              contains("markers.max_count to 5"));
  // And those of a place, with nothing changed.
  f.played.taken.clear();
  WantedPlace place{.markers = some_lock(), .refuses = nullptr};
  place.markers.markers.resize(4, place.markers.markers.front());
  Asker asker;
  CHECK_THROWS_AS(f.before->find_place(std::move(place), asker.answer(), f.now_ns), CommandRefused);
  CHECK_FALSE(f.before->find_pending());
}

TEST_CASE("a ROI that is configured now goes before the one that was chosen, and is what is told") {
  Fixture f(config::MarkerMode::Auto, 15);
  f.config.optics.spot_sigma_px = 0;
  f.config.fitter.roi_px = 11;
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  REQUIRE(f.adopted().fitter != nullptr);
  CHECK(f.adopted().fitter->roi_px() == 11);
  CHECK(f.adopted().tracker.origin(0).x_px == 1025);  // 11 px around 1030.3
  CHECK(f.before->sizes().roi_px == 11);
  CHECK(f.before->sizes().spot_sigma_px == 1.3);
  const auto told = std::ranges::find(f.told.events, "spot_size_chosen",
                                      [](const auto& event) { return event["code"]; });
  REQUIRE(told != f.told.events.end());
  CHECK((*told)["text"] ==
        "sigma 1.30 px, as the interrupted lock had it; a ROI of 11 px, as configured");
}
