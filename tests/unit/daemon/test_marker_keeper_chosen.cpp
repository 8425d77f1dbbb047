// SPDX-License-Identifier: MIT
// Markers that somebody chose: by their places in the picture, taken out, in another role.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "daemon/markers/marker_keeper.hpp"
#include "marker_keeper_fixture.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using driftd::control::LockState;
using driftd::control::MarkerRole;
using nlohmann::json;

namespace {

/// Of the picture on the sensor.
constexpr double kLeft = 1000, kTop = 500;

struct Fixture : KeeperFixture {
  Asker asker;

  json order(json request) {
    request["command"] = "markers";
    return request;
  }
  /// The code with which it is refused at once.
  std::string ordered(const json& request) {
    asker = {};
    return refused_at_once(
        [&] { keeper.choose(read_choice(order(request)), asker.answer(), now_ns); });
  }
  std::string told_why(const json& request) {
    try {
      keeper.choose(
          read_choice(order(request)), [](const Outcome&) {}, now_ns);
    } catch (const CommandRefused& refused) {
      return refused.text;
    }
    return "";
  }
  /// As the loop does after its next frame.
  void measure(std::uint64_t id) {
    turn();
    played.tell_markers(id, given());
    turn();
  }
  /// Orders, with a picture where one is asked for, until it is answered.
  void choose(const json& request, const Spots& shown = kSpots) {
    REQUIRE(ordered(request).empty());
    const std::size_t sent = count(Kind::Markers);
    std::uint64_t id = 100;
    REQUIRE(until([&] {
      if (played.ports.frame_copy.search.pending()) show(shown, ++id);
      if (count(Kind::Markers) > sent) played.tell_markers(++id, given());
      return asker.answered();
    }));
  }
  std::size_t count(Kind kind) const {
    return static_cast<std::size_t>(
        std::count_if(played.taken.begin(), played.taken.end(),
                      [&](const LoopCommand& command) { return command.kind == kind; }));
  }
  std::uint32_t id_at(double x, double y) const {
    for (const control::Marker& m : given())
      if (std::hypot(m.x_px - kLeft - x, m.y_px - kTop - y) < 1) return m.id;
    return 0;
  }
  json at(double x, double y) const { return {{"x_px", kLeft + x}, {"y_px", kTop + y}}; }
};

}  // namespace

TEST_CASE("a marker is taken out, and put back by its place in the picture") {
  Fixture f;
  f.settle();
  const std::uint32_t id = f.id_at(95.8, 40.2);
  REQUIRE(id > 0);
  f.choose({{"remove", {id}}});
  REQUIRE(f.asker.code().empty());
  CHECK(f.asker.reply().fields["chosen"] == true);
  CHECK(f.asker.reply().fields["too_few"] == "");
  CHECK(f.asker.reply().fields["markers"].size() == 4);
  CHECK(f.given().size() == 4);
  CHECK(f.id_at(95.8, 40.2) == 0);
  CHECK(f.keeper.are_chosen());
  CHECK(f.keeper.listed()["chosen"] == true);
  // Beside its middle by as much as a finger is.
  f.choose({{"add", {f.at(98, 38)}}});
  REQUIRE(f.asker.code().empty());
  CHECK(f.given().size() == 5);
  CHECK(f.asker.reply().fields["added"] == json{id});
  CHECK(f.id_at(95.8, 40.2) == id);
  const auto& m = f.given().back();
  CHECK(m.x_px == Approx(kLeft + 95.8).margin(0.1));
  CHECK(m.y_px == Approx(kTop + 40.2).margin(0.1));
  CHECK(f.told.codes() ==
        std::vector<std::string>{"markers_found", "markers_chosen", "markers_chosen"});
}

TEST_CASE("what is chosen has no reference of before, and witnesses that do not take turns") {
  Fixture f;
  f.settle();
  CHECK_FALSE(f.last(Kind::Markers)->markers->roles_stay);
  // Where the sample has drifted to meanwhile, not where it was found.
  const std::vector<control::Marker> drifted(f.given().begin(), f.given().end());
  MarkersReport& seen = f.played.ports.markers.writing();
  seen = {};
  seen.frame_id = 9;
  seen.commands_taken = f.played.report.commands_taken;
  seen.count = drifted.size();
  for (std::size_t i = 0; i < drifted.size(); ++i) {
    seen.entries[i].marker = drifted[i];
    seen.entries[i].result.health = control::MarkerHealth::Good;
    seen.entries[i].observation.fitted = true;
    seen.entries[i].observation.x_px = drifted[i].x_px + 2.5;
    seen.entries[i].observation.y_px = drifted[i].y_px - 1.5;
    seen.entries[i].reference.place_px = {drifted[i].x_px, drifted[i].y_px};
  }
  seen.entries[0].result.health = control::MarkerHealth::Outlier;  // elsewhere: its ROI waits
  seen.entries[0].observation.x_px += 4;
  seen.entries[0].roi = {1050, 560};
  f.played.ports.markers.publish();
  f.turn();
  const std::vector<std::uint32_t> ids = {drifted[1].id, drifted[2].id};
  f.choose({{"witness", ids}});
  REQUIRE(f.asker.code().empty());
  const MarkerSet& set = *f.last(Kind::Markers)->markers;
  CHECK(set.roles_stay);
  for (std::size_t i = 0; i < 5; ++i) {
    const control::Marker& marker = set.estimator.markers()[i];
    CHECK(marker.role == (i == 1 || i == 2 ? MarkerRole::Witness : MarkerRole::Tracking));
    CHECK(marker.x_px == Approx(i == 0 ? 1056 : drifted[i].x_px + 2.5));
    CHECK(set.estimator.reference_px()[i].x == marker.x_px);
    CHECK(set.estimator.reference(i).sigma_px == 0);  // never measured
  }
  f.choose({{"tracking", ids}});
  CHECK(f.given()[1].role == MarkerRole::Tracking);
  CHECK(f.last(Kind::Markers)->markers->roles_stay);
}

TEST_CASE("`find` takes a choice back, and one that finds too few leaves it") {
  Fixture f;
  f.settle();
  f.choose({{"remove", {f.given()[0].id}}});
  const auto find = [&](const Spots& spots) {
    f.asker = {};
    f.keeper.find(f.asker.answer(), f.now_ns);
    f.turn();
    f.show(spots, 200);
    REQUIRE(f.until([&] {
      f.played.tell_markers(201, f.given());
      return f.asker.answered();
    }));
  };
  find({kSpots[0]});
  CHECK(f.asker.code() == "not_found");
  CHECK(f.keeper.are_chosen());
  find(kSpots);
  CHECK(f.asker.code().empty());
  CHECK(f.asker.reply().fields["chosen"] == false);
  CHECK_FALSE(f.keeper.are_chosen());
  CHECK_FALSE(f.last(Kind::Markers)->markers->roles_stay);
  CHECK(f.given().size() == 5);
}

TEST_CASE("where no spot is nothing changes, and the reason is told") {
  Fixture f;
  f.settle();
  f.choose({{"remove", {f.id_at(60.1, 80.7), f.id_at(25.9, 70.4)}}});
  const std::size_t sent = f.count(Kind::Markers);
  const auto refused = [&](const json& places, const Spots& shown) {
    f.choose({{"add", places}}, shown);
    CHECK(f.count(Kind::Markers) == sent);
    return f.asker.code() + ": " + f.asker.text();
  };
  CHECK(refused(json::array({f.at(75, 20)}), kSpots) ==
        "not_found: no spot within 6.5 px of (1075.0, 520.0)");
  // Of several none is taken where one is wrong.
  CHECK(refused(json::array({f.at(60.1, 80.7), f.at(75, 20)}), kSpots) ==
        "not_found: no spot within 6.5 px of (1075.0, 520.0)");
  Spots joined = kSpots;
  joined.push_back({64.5, 82.2});
  CHECK_THAT(refused(json::array({f.at(60.1, 80.7)}), joined),
             contains("not_found: the spot at (106"));
  CHECK_THAT(refused(json::array({f.at(95.8, 40.2)}), kSpots),
             contains("refused: the spot at (1095.8, 540.2) is marker " +
                      std::to_string(f.id_at(95.8, 40.2)) + " already"));
  CHECK_THAT(refused(json::array({f.at(60.1, 80.7), f.at(61.1, 80.7)}), kSpots),
             contains(" already"));
  Spots at_rim = kSpots;
  at_rim.push_back({136.5, 20});  // its ROI of 13 px does not lie in the frame
  CHECK_THAT(refused(json::array({f.at(136.5, 20)}), at_rim), contains("border"));
  CHECK(f.given().size() == 3);
}

TEST_CASE("a spot that border and distance keep from being found may be chosen") {
  Fixture f;
  f.config.markers.border_px = 10;
  f.config.markers.min_distance_px = 30;
  Spots spots = kSpots;
  spots.push_back({132.5, 20.4});  // its ROI ends at the border
  spots.push_back({100.3, 52.8});  // 13.3 px from another
  f.config.drift.min_markers = 1;
  f.turn();
  f.show(spots);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  f.measure(2);
  REQUIRE(f.given().size() < 7);
  f.choose({{"add", {f.at(132.5, 20.4)}}}, spots);
  CHECK(f.asker.text() == "");
  f.choose({{"add", {f.at(100.3, 52.8)}}}, spots);
  CHECK(f.asker.text() == "");
  CHECK(f.id_at(132.5, 20.4) > 0);
  CHECK(f.id_at(100.3, 52.8) > 0);
}

TEST_CASE("wrong choices are refused at once by a sentence") {
  Fixture f;
  f.config.markers.max_count = 6;
  f.settle();
  const std::size_t sent = f.count(Kind::Markers);
  CHECK(f.told_why({{"remove", {77}}}) == "there is no marker 77: there are 1, 2, 3, 4, 5");
  CHECK(f.told_why({{"witness", {1}}, {"remove", {1}}}) == "marker 1 is named twice");
  CHECK_THAT(f.told_why({{"remove", {1, 2, 3, 4, 5}}}), contains("no marker would be left"));
  CHECK(f.told_why({{"add", {f.at(140, 3)}}}) ==
        "(1140.0, 503.0) is not in the picture, which has x 1000 to 1139 and y 500 to 609");
  CHECK_THAT(f.told_why({{"add", {f.at(-0.5, 3)}}}), contains("is not in the picture"));
  CHECK(f.told_why({{"add", {f.at(10, 10), f.at(50, 10)}}}) ==
        "that were 7 markers, and at most 6 are followed (markers.max_count): take one out first");
  const auto bad = [](const json& request) {
    return refused_at_once([&] { read_choice(request); }) == "bad_request";
  };
  CHECK(bad({{"add", json::array()}}));
  CHECK(bad({{"add", 3}}));
  CHECK(bad({{"add", {{{"x_px", 3}}}}}));
  CHECK(bad({{"add", {{{"x_px", "3"}, {"y_px", 4}}}}}));
  CHECK(bad({{"add", {{{"x_px", 1e300}, {"y_px", 4}}}}}));
  CHECK(bad({{"add", {{{"x_px", json(std::numeric_limits<double>::quiet_NaN())}, {"y_px", 4}}}}}));
  CHECK(bad({{"add", {{{"x_px", json(std::numeric_limits<double>::infinity())}, {"y_px", 4}}}}}));
  CHECK(bad({{"add", {{{"x_px", 3}, {"y_px", 4}, {"z_px", 4}}}}}));
  CHECK(bad({{"add", {{{"x_px", 3}, {"y_px", 4}, {"role", "judge"}}}}}));
  CHECK(bad({{"remove", {-1}}}));
  CHECK(bad({{"remove", {1.5}}}));
  CHECK(bad({{"remove", 1}}));
  CHECK(bad({{"witness", {4294967296}}}));
  CHECK_FALSE(f.keeper.find_pending());
  f.turn();
  CHECK(f.count(Kind::Markers) == sent);
  for (const LockState state : {LockState::Referencing, LockState::Locked, LockState::Holding,
                                LockState::Fault, LockState::Calibrating}) {
    f.played.tell_state(state);
    f.turn();
    CHECK(f.ordered({{"remove", {1}}}) == "refused");
  }
  f.played.tell_state(LockState::Lost);
  f.turn();
  CHECK(f.ordered({{"remove", {1}}}).empty());
  CHECK(f.ordered({{"remove", {1}}}) == "busy");
}

TEST_CASE("a choice does not change the markers of a lock that was ordered meanwhile") {
  for (const bool adds : {false, true}) {
    Fixture f;
    f.settle();
    f.choose({{"remove", {1}}});
    const std::size_t sent = f.count(Kind::Markers);
    const json request = adds ? json{{"add", {f.at(30.3, 25.6)}}} : json{{"remove", {2}}};
    REQUIRE(f.ordered(request).empty());
    if (adds) {
      f.turn();
      f.show(kSpots, 300);
    }
    REQUIRE(f.loop.send({.kind = Kind::Lock, .lock_id = 1}));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < end) f.keeper.turn(f.now_ns);  // not taken yet
    REQUIRE_FALSE(f.asker.answered());
    REQUIRE(f.until([&] { return f.asker.answered(); }));
    CHECK(f.asker.code() == "refused");
    CHECK(f.asker.text() == "the lock was engaged meanwhile");
    CHECK(f.count(Kind::Markers) == sent);
  }
}

TEST_CASE("half a choice is followed, but nothing can be locked by it") {
  Fixture f;
  f.settle();
  REQUIRE(f.keeper.too_few().empty());
  f.choose({{"remove", {1, 2}}, {"witness", {3}}});
  REQUIRE(f.asker.code().empty());
  CHECK(f.asker.reply().fields["too_few"] == f.keeper.too_few());
  CHECK_THAT(f.keeper.too_few(), contains("2 tracking markers are chosen, and a lock needs 3"));
  // It is not searched for, nor replaced by what is found.
  f.played.report.markers_gone_since_ns = f.now_ns;
  f.turn(5000);
  f.turn(5000);
  CHECK_FALSE(f.played.ports.frame_copy.search.pending());
  f.choose({{"tracking", {3}}});
  CHECK(f.keeper.too_few().empty());
  CHECK(f.asker.reply().fields["too_few"] == "");
}

TEST_CASE("without any marker found the first one is chosen, with the size of its spot") {
  Fixture f;
  f.config.optics.spot_sigma_px = 0;
  f.config.fitter.roi_px = 0;
  f.config.drift.min_markers = 9;  // never found
  f.turn();
  f.show(kSpots, 1, 2.0);
  REQUIRE(f.until([&] { return !f.told.events.empty(); }));
  REQUIRE_FALSE(f.keeper.has_markers());
  CHECK(f.told_why({{"remove", {1}}}) == "there is no marker 1: none is in use");
  REQUIRE(f.ordered({{"add", {f.at(30.3, 25.6)}}}).empty());
  f.turn(0);
  f.show(kSpots, 2, 2.0);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  f.measure(3);
  CHECK(f.asker.reply().fields["added"] == json{1});
  REQUIRE(f.keeper.size());
  CHECK(f.keeper.size()->sigma_px == Approx(2.0).margin(0.1));
  CHECK(f.last(Kind::Markers)->markers->fitter->roi_px() == f.keeper.size()->roi_px);
  // One that is added has the same.
  const control::SpotSize size = *f.keeper.size();
  REQUIRE(f.ordered({{"add", {f.at(60.1, 80.7)}}}).empty());
  f.turn();
  f.show(kSpots, 4, 2.0);
  REQUIRE(f.until([&] { return f.given().size() == 2; }));
  f.measure(5);
  CHECK(f.asker.reply().fields["added"] == json{2});
  CHECK(f.keeper.size()->roi_px == size.roi_px);
  CHECK(f.keeper.size()->sigma_px == size.sigma_px);
}

TEST_CASE("a choice begins from listed markers, and `find` goes back to these") {
  Fixture f;
  f.config.markers.mode = config::MarkerMode::List;
  f.config.markers.list = {{4, 1030.3, 525.6, MarkerRole::Tracking},
                           {9, 1060.1, 580.7, MarkerRole::Tracking},
                           {10, 1095.8, 540.2, MarkerRole::Witness}};
  f.turn();
  f.measure(1);
  CHECK(refused_at_once([&] { f.keeper.find(f.asker.answer(), f.now_ns); }) == "refused");
  f.choose({{"add", {f.at(25.9, 70.4)}}, {"remove", {10}}});
  REQUIRE(f.asker.text() == "");
  REQUIRE(f.given().size() == 3);
  CHECK(f.given()[2].id == 1);
  f.asker = {};
  f.keeper.find(f.asker.answer(), f.now_ns);
  f.turn();
  f.measure(400);
  REQUIRE(f.asker.answered());
  CHECK(f.asker.reply().fields["chosen"] == false);
  REQUIRE(f.given().size() == 3);
  CHECK(f.given()[2].id == 10);
  CHECK(refused_at_once([&] { f.keeper.find(f.asker.answer(), f.now_ns); }) == "refused");
}

TEST_CASE("more markers than the fitter holds come with one that holds them") {
  Fixture f;
  f.fitter.fitter = fitter::make_cpu_live_fitter(13, 4, {});
  f.config.markers.mode = config::MarkerMode::List;
  for (std::uint32_t i = 0; i < 4; ++i)
    f.config.markers.list.push_back(
        {i + 1, kLeft + kSpots[i].first, kTop + kSpots[i].second, MarkerRole::Tracking});
  f.turn();
  f.measure(1);
  f.choose({{"add", {f.at(115.5, 81.5)}}});
  REQUIRE(f.asker.text() == "");
  CHECK(f.last(Kind::Markers)->markers->fitter->capacity() >= 5);
  CHECK(f.fitter.fitter == f.last(Kind::Markers)->markers->fitter);
}
