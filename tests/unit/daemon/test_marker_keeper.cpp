// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/markers/marker_keeper.hpp"
#include "marker_keeper_fixture.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using driftd::control::LockState;
using Fixture = driftd::daemon::test::KeeperFixture;

TEST_CASE("the first markers are found by the worker and handed to the loop") {
  Fixture f;
  f.turn();
  REQUIRE_FALSE(f.keeper.has_markers());
  REQUIRE_FALSE(f.played.ports.markers_settled);
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.last(Kind::Markers) != nullptr; }));
  const auto& markers = f.last(Kind::Markers)->markers->estimator.markers();
  REQUIRE(markers.size() == kSpots.size());
  REQUIRE(f.played.ports.markers_settled);
  REQUIRE(f.told.codes() == std::vector<std::string>{"markers_found"});
  REQUIRE(f.told.events[0]["found"] == kSpots.size());
  REQUIRE(f.told.events[0]["spots_left_out"] == 0);
}

TEST_CASE("too few first markers are told once and looked for again at the interval") {
  Fixture f;
  f.turn();
  f.show({kSpots[0], kSpots[1]});
  REQUIRE(f.until([&] { return !f.told.events.empty(); }));
  REQUIRE(f.told.codes() == std::vector<std::string>{"markers_not_found"});
  REQUIRE(f.told.events[0]["found"] == 2);
  f.turn(900);
  REQUIRE_FALSE(f.played.ports.frame_copy.search.pending());
  f.turn(100);
  REQUIRE(f.played.ports.frame_copy.search.pending());
  f.show({kSpots[0]}, 2);
  f.turn(0);
  f.now_ns += 1000 * kMs;
  REQUIRE(f.until([&] { return f.played.ports.frame_copy.search.pending(); }));
  f.show(kSpots, 3);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  REQUIRE(f.told.codes() == std::vector<std::string>{"markers_not_found", "markers_found"});
}

TEST_CASE("markers of mode `list` go to the loop, again when its queue was full") {
  Fixture f;
  f.config.markers.mode = config::MarkerMode::List;
  f.config.markers.list = {{4, 1030, 526, control::MarkerRole::Tracking},
                           {9, 1060, 581, control::MarkerRole::Witness}};
  f.played.stop_taking();
  f.loop.refresh();
  f.keeper.turn(f.now_ns);
  REQUIRE_FALSE(f.keeper.has_markers());
  f.turn();
  f.turn();
  REQUIRE(f.last(Kind::Markers)->markers->estimator.markers().size() == 2);
  REQUIRE(f.keeper.has_markers());
}

TEST_CASE("`find` is answered when the loop has measured the markers found") {
  Fixture f;
  f.settle();
  Asker asker;
  f.keeper.find(asker.answer(), f.now_ns);
  REQUIRE(refused_at_once([&] { f.keeper.find(asker.answer(), f.now_ns); }) == "busy");
  f.turn();
  f.show(moved(kSpots, 6, -4), 5);
  REQUIRE(f.until([&] { return f.told.events.size() == 2; }));
  f.turn();
  f.turn();
  REQUIRE_FALSE(asker.answered());
  f.played.tell_markers(6, f.last(Kind::Markers)->markers->estimator.markers());
  f.turn();
  const auto reply = asker.reply().fields;
  REQUIRE(reply["markers"].size() == kSpots.size());
  REQUIRE(reply["rejected"].empty());
  REQUIRE(reply["spots_left_out"] == 0);
  REQUIRE_FALSE(f.keeper.find_pending());
}

TEST_CASE("a `find` that finds too few is refused and changes nothing") {
  Fixture f;
  f.settle();
  const std::uint64_t taken = f.played.report.commands_taken;
  Asker asker;
  f.keeper.find(asker.answer(), f.now_ns);
  f.turn();
  f.show({kSpots[0], kSpots[2], {36.3, 27.6}}, 5);  // the third disturbs the first
  REQUIRE(f.until([&] { return asker.answered(); }));
  REQUIRE(asker.code() == "not_found");
  REQUIRE(std::get<CommandRefused>(*asker.outcome).fields["rejected"].size() >= 1);
  f.turn();
  REQUIRE(f.played.report.commands_taken == taken);
}

TEST_CASE("a `find` is refused when it is not possible, and when no frame comes") {
  Fixture f;
  f.settle();
  Asker asker;
  const auto find = [&] { f.keeper.find(asker.answer(), f.now_ns); };
  f.played.tell_state(LockState::Locked);
  f.loop.refresh();
  CHECK(refused_at_once(find) == "refused");
  f.played.tell_state(LockState::Idle);
  f.loop.refresh();
  f.source.connected = false;
  CHECK(refused_at_once(find) == "no_frame");
  f.source.connected = true;
  CHECK(refused_at_once(find).empty());
  f.turn();
  f.turn(990);
  CHECK_FALSE(asker.answered());
  f.turn(1);
  CHECK(asker.code() == "no_frame");
  Asker second;
  f.keeper.find(second.answer(), f.now_ns);
  f.source.connected = false;
  f.turn();
  CHECK(second.code() == "no_frame");
  f.config.markers.mode = config::MarkerMode::List;
  CHECK(refused_at_once(find) == "refused");
}

TEST_CASE("markers found do not replace those of a lock that was engaged meanwhile") {
  Fixture f;
  f.settle();
  Asker asker;
  f.keeper.find(asker.answer(), f.now_ns);
  f.turn();
  f.show(kSpots, 5);
  REQUIRE(f.loop.send({.kind = Kind::Lock, .lock_id = 1}));
  // Not taken yet: the loop still reports that it is idle.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) f.keeper.turn(f.now_ns);
  REQUIRE_FALSE(asker.answered());
  REQUIRE(f.until([&] { return asker.answered(); }));
  REQUIRE(asker.code() == "refused");
  REQUIRE(f.told.events.size() == 1);
}

TEST_CASE("markers that are gone are looked for, and the loop is told where they are") {
  Fixture f;
  f.config.markers.find_again_after_ms = 300;
  f.settle();
  f.turn(1000);  // from the search before
  f.config.optics.pixel_size_nm = 80;
  f.played.report.markers_gone_since_ns = f.now_ns;
  f.turn(299);
  REQUIRE_FALSE(f.played.ports.frame_copy.search.pending());
  f.turn(1);
  REQUIRE(f.played.ports.frame_copy.search.pending());
  f.show({}, 5);
  REQUIRE(f.until([&] { return f.keeper.searches() == 1; }));
  f.turn(1000);
  f.show(moved(kSpots, 12.5, 7.25), 6);
  REQUIRE(f.until([&] { return f.last(Kind::MoveRois) != nullptr; }));
  const control::Vec2 px = f.last(Kind::MoveRois)->displacement_px;
  CHECK(px.x == Approx(12.5).margin(0.6));
  CHECK(px.y == Approx(7.25).margin(0.6));
  CHECK(f.keeper.searches() == 2);
  CHECK(f.keeper.found_again() == 1);
  CHECK(f.told.codes() == std::vector<std::string>{"markers_found", "markers_not_found_again",
                                                   "markers_found_again"});
  const nlohmann::json& told = f.told.events.back();
  CHECK(told["found"] == 5);
  CHECK(told["displacement_x_px"] == px.x);
  CHECK(told["displacement_y_px"] == px.y);
  CHECK(told["displacement_x_nm"] == 80 * px.x);
  CHECK(told["displacement_y_nm"] == 80 * px.y);
}

TEST_CASE("each absence of the markers is told once, however often they are looked for") {
  Fixture f;
  f.config.markers.find_again_after_ms = 300;
  f.settle();
  std::uint64_t id = 5;
  for (const std::size_t absences : {1U, 2U}) {
    f.played.report.markers_gone_since_ns = f.now_ns;
    f.turn(300);
    for (int searched = 0; searched < 2; ++searched) {
      const std::uint64_t searches = f.keeper.searches();
      f.turn(1000);
      REQUIRE(f.played.ports.frame_copy.search.pending());
      f.show({}, ++id);
      REQUIRE(f.until([&] { return f.keeper.searches() > searches; }));
      REQUIRE(f.told.events.size() == 1 + absences);
      REQUIRE(f.told.codes().back() == "markers_not_found_again");
    }
    f.played.report.markers_gone_since_ns = 0;
    f.turn();
  }
}

TEST_CASE("markers that are gone are not looked for where that is switched off") {
  Fixture f;
  f.config.markers.find_again_after_ms = 0;
  f.settle();
  f.played.report.markers_gone_since_ns = f.now_ns;
  f.turn(60'000);
  f.turn();
  REQUIRE_FALSE(f.played.ports.frame_copy.search.pending());
}

TEST_CASE("markers that came back while they were looked for stay where they are") {
  Fixture f;
  f.config.markers.find_again_after_ms = 300;
  f.settle();
  f.played.report.markers_gone_since_ns = f.now_ns;
  f.turn(5000);
  REQUIRE(f.played.ports.frame_copy.search.pending());
  f.show(moved(kSpots, 12.5, 7.25), 5);
  f.turn();  // the search begins
  f.played.report.markers_gone_since_ns = 0;
  Asker asker;
  f.keeper.find(asker.answer(), f.now_ns);  // its frame is asked for once that search is over
  REQUIRE(f.until([&] { return f.played.ports.frame_copy.search.pending(); }));
  CHECK(f.last(Kind::MoveRois) == nullptr);
  CHECK(f.keeper.searches() == 0);
  CHECK(f.told.codes() == std::vector<std::string>{"markers_found"});
}

TEST_CASE("drift.min_markers counts the markers found that are no witnesses") {
  for (const int needed : {3, 4}) {
    Fixture f;
    f.config.markers.min_for_witness = 5;
    f.config.markers.witness_fraction = 0.4;  // two of the five
    f.config.drift.min_markers = needed;
    f.turn();
    f.show(kSpots);
    REQUIRE(f.until([&] { return !f.told.events.empty(); }));
    CHECK(f.told.codes().back() == (needed > 3 ? "markers_not_found" : "markers_found"));
    CHECK(f.told.events.back()["found"] == (needed > 3 ? 3 : 5));
    CHECK(f.keeper.has_markers() == (needed == 3));
  }
}

TEST_CASE("markers of a slow camera are gone after two frames without them") {
  Fixture f;
  f.config.markers.find_again_after_ms = 300;
  f.settle();
  f.played.report.frame_rate_hz = 2;
  f.played.report.markers_gone_since_ns = f.now_ns;
  f.turn(990);
  CHECK_FALSE(f.played.ports.frame_copy.search.pending());
  f.turn(20);
  CHECK(f.played.ports.frame_copy.search.pending());
}

TEST_CASE("SearchWorker does one search at a time, and ends while one is under way") {
  auto worker = std::make_unique<SearchWorker>();
  const auto search = [](int side_px) {
    MarkerSearch made;
    made.image = std::make_unique<FrameImage>();
    made.image->frame.width_px = made.image->frame.height_px = side_px;
    made.image->pixels.resize(static_cast<std::size_t>(side_px) *
                              static_cast<std::size_t>(side_px));
    made.detection = driftd::test::default_detection_settings();
    return made;
  };
  REQUIRE(worker->begin(search(64)));
  REQUIRE_FALSE(worker->begin(search(64)));
  std::optional<MarkerSearchResult> result;
  while (!(result = worker->take())) std::this_thread::yield();
  REQUIRE(result->found.markers.empty());
  REQUIRE_FALSE(worker->take());
  REQUIRE(worker->begin(search(4000)));
  worker.reset();
}
