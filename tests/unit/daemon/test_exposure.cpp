// SPDX-License-Identifier: MIT
// Exposure and gain of the camera: what is refused, when an order is over, and what becomes of the
// markers.
#include <functional>
#include <limits>
#include <string>

#include "daemon/exposure.hpp"
#include "marker_keeper_fixture.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using driftd::control::LockState;
using nlohmann::json;

namespace {

struct Fixture : KeeperFixture {
  bool orders_pending = false;
  Exposure exposure{
      config, source, camera, loop, keeper, told.log, [this] { return orders_pending; }};
  Asker asker;

  Fixture() {
    source.described.exposure_us = 1000;
    source.described.gain_db = 0;
    source.described.frame_rate_hz = 500;
    source.described.exposure_range_us = {10, 1900};
    source.described.gain_range_db = {0, 24};
    camera.look();
  }
  void step(std::int64_t later_ms = 10) {
    turn(later_ms);
    exposure.turn(now_ns);
  }
  std::string why_not(const camera::ExposureOrder& order) {
    try {
      exposure.order(order, asker.answer(), now_ns);
    } catch (const CommandRefused& refused) {
      return std::string(name_of(refused.code)) + ": " + refused.text;
    }
    return "";
  }
  /// As the source's own thread does.
  void obey(std::string problem = "") {
    const camera::ExposureOrder& order = source.exposures.back();
    if (problem.empty()) {
      source.described.exposure_us = order.exposure_us.value_or(source.described.exposure_us);
      source.described.gain_db = order.gain_db.value_or(source.described.gain_db);
    }
    source.described.exposure_order = source.exposures.size();
    source.described.exposure_problem = std::move(problem);
  }
  void frame_now() {
    played.report.frame_ns = now_ns;
    step(0);
  }
  /// Another gain, or another exposure, up to the frame that shows it.
  void set(
      bool gain, const std::function<void()>& before_frame = [] {}) {
    REQUIRE(why_not(gain ? camera::ExposureOrder{.exposure_us = {}, .gain_db = 6}
                         : camera::ExposureOrder{.exposure_us = 1500, .gain_db = {}})
                .empty());
    obey();
    step();
    step(100);
    played.taken.clear();
    before_frame();
    frame_now();
  }
  /// The picture that is asked for then, and what the loop measures.
  void renew(const std::function<void()>& show) {
    REQUIRE(until([&] {
      exposure.turn(now_ns);
      if (played.ports.frame_copy.search.pending()) show();
      if (last(Kind::Markers) != nullptr) played.tell_markers(60, given());
      return asker.answered();
    }));
  }
};

}  // namespace

TEST_CASE("an order is over when a frame shows it, and the loop dates frames by it") {
  Fixture f;
  REQUIRE(f.why_not({.exposure_us = 1500, .gain_db = 6}).empty());
  CHECK(f.exposure.pending());
  CHECK(f.why_not({.exposure_us = 1500, .gain_db = {}}) ==
        "busy: the exposure is being set already");
  f.frame_now();
  CHECK(f.camera.info().exposure_us == 1000);
  REQUIRE(f.source.exposures.size() == 1);
  CHECK(*f.source.exposures[0].exposure_us == 1500);
  f.obey();
  f.step(0);
  f.step(0);
  REQUIRE(f.last(Kind::Settings) != nullptr);
  CHECK(f.last(Kind::Settings)->settings->exposure_ns == 1'500'000);
  f.now_ns += 6 * kMs;  // three frames of 2 ms
  f.frame_now();
  CHECK_FALSE(f.asker.answered());
  f.now_ns += 1 * kMs;
  f.frame_now();
  const json now = f.asker.reply().fields["exposure"];
  CHECK(now["exposure_us"] == 1500);
  CHECK(now["gain_db"] == 6);
  CHECK(now["exposure_range_us"] == json{10, 1900});
  CHECK_FALSE(f.exposure.pending());
  CHECK(f.told.codes() == std::vector<std::string>{"exposure_set"});
  CHECK(f.told.events[0]["exposure_us"] == 1500);
}

TEST_CASE("what cannot be set is refused at once, and nothing is ordered") {
  Fixture f;
  const camera::ExposureOrder order{.exposure_us = 1500, .gain_db = {}};
  for (const LockState state : {LockState::Referencing, LockState::Locked, LockState::Holding,
                                LockState::Calibrating, LockState::Fault}) {
    f.played.tell_state(state);
    f.turn();
    CHECK_THAT(f.why_not(order), contains("refused: the lock is `"));
  }
  f.played.tell_state(LockState::Idle);
  f.turn();
  f.orders_pending = true;
  CHECK(f.why_not(order) == "busy: an order to the lock is under way");
  f.orders_pending = false;
  CHECK(f.why_not({.exposure_us = 1901, .gain_db = {}}) ==
        "refused: the camera's exposure time can be 10 to 1900 us now, not 1901");
  CHECK(f.why_not({.exposure_us = {}, .gain_db = -0.1}) ==
        "refused: the camera's gain can be 0 to 24 dB now, not -0.1");
  f.config.camera.frame_rate_hz = 1000;
  CHECK_THAT(f.why_not(order), contains("camera.frame_rate_hz 1000 leaves 1000 us a frame"));
  f.config.camera.frame_rate_hz = 0;
  f.source.described.gain_range_db = {};
  f.source.described.gain_db = std::numeric_limits<double>::quiet_NaN();
  CHECK(f.why_not({.exposure_us = 1500, .gain_db = 3}) ==
        "refused: this camera has no gain that can be set here");
  CHECK(f.exposure.now()["gain_db"].is_null());
  CHECK(f.exposure.now()["gain_range_db"].is_null());
  f.source.connected = false;
  CHECK_THAT(f.why_not(order), contains("no_frame: "));
  f.source.connected = true;
  Asker other;
  f.keeper.find(other.answer(), f.now_ns);
  CHECK(f.why_not(order) == "busy: markers are being looked for");
  f.config.camera.source = config::Source::Replay;
  CHECK_THAT(f.why_not(order), contains("recording"));
  CHECK(f.source.exposures.empty());
  CHECK_FALSE(f.exposure.pending());
}

TEST_CASE("a camera that does not answer keeps locks off until it has dealt with the order") {
  Fixture f;
  REQUIRE(f.why_not({.exposure_us = 1500, .gain_db = {}}).empty());
  f.step(6001);
  CHECK(f.asker.code() == "timeout");
  CHECK(f.exposure.pending());
  f.step(60'000);
  CHECK(f.exposure.pending());
  CHECK(f.asker.answers == 1);
  f.obey();
  f.step();
  f.step(100);
  f.frame_now();
  CHECK_FALSE(f.exposure.pending());
  CHECK(f.asker.answers == 1);
}

TEST_CASE("what the camera took otherwise is a refusal that says what there is now") {
  Fixture f;
  REQUIRE(f.why_not({.exposure_us = 1500, .gain_db = {}}).empty());
  f.obey("the exposure time is 1000 us instead of 1500 us");
  f.step();
  f.step(100);
  f.frame_now();
  CHECK(f.asker.code() == "refused");
  CHECK(f.asker.text() == "the exposure time is 1000 us instead of 1500 us");
  CHECK(std::get<CommandRefused>(*f.asker.outcome).fields["exposure"]["exposure_us"] == 1000);
}

TEST_CASE("markers are given anew, as they are") {
  for (const bool gain : {false, true}) {
    Fixture f;
    f.settle();
    const std::size_t before = f.given().size();
    f.set(gain);
    CHECK_FALSE(f.asker.answered());
    f.renew([&] { f.show(kSpots, 50); });
    CHECK(f.asker.code().empty());
    CHECK(f.given().size() == before);
    CHECK(f.last(Kind::Markers)->markers->estimator.reference(0).sigma_px == 0);
    CHECK_FALSE(f.keeper.are_chosen());
    CHECK_FALSE(f.exposure.pending());
    CHECK(f.told.codes() == std::vector<std::string>{"markers_found", "exposure_set"});
  }
}

TEST_CASE("a saturation that a picture showed is forgotten by another gain, and by no exposure") {
  const bool gain = GENERATE(false, true);
  const bool shows_another = GENERATE(false, true);
  Fixture f;
  f.turn();
  f.show_clipped(1200, 1);
  f.settle_shown();
  REQUIRE(f.keeper.sizes().saturation_adu == 1200);
  f.set(gain);
  f.renew([&] { shows_another ? f.show_clipped(1500, 50) : f.show(kSpots, 50); });
  CHECK(f.asker.code().empty());
  CHECK(f.keeper.sizes().saturation_adu == (!gain ? 1200 : shows_another ? 1500 : 0));
}

TEST_CASE("markers that were not given anew are told") {
  Fixture f;
  f.settle();
  f.set(false);
  REQUIRE(f.until([&] {  // and no frame comes for it
    f.step(100);
    return f.asker.answered();
  }));
  CHECK(f.asker.code() == "no_frame");
  CHECK_THAT(f.asker.text(), contains("it is set"));
  CHECK_THAT(f.asker.text(), contains("the markers in use are those of before it"));
  CHECK_THAT(f.asker.text(), contains("`driftctl markers --find`"));
  CHECK(std::get<CommandRefused>(*f.asker.outcome).fields["exposure"]["exposure_us"] == 1500);
  CHECK_FALSE(f.exposure.pending());
  REQUIRE(f.told.codes() ==
          std::vector<std::string>{"markers_found", "exposure_set", "exposure_set"});
  CHECK(f.told.events[2]["level"] == "warning");
}

TEST_CASE("a camera that is away when markers are to be given anew leaves them as they were") {
  Fixture f;
  f.settle();
  f.set(false, [&] { f.source.connected = false; });
  CHECK(f.asker.code() == "no_frame");
  CHECK_THAT(f.asker.text(), contains("the markers in use are those of before it"));
}

TEST_CASE("no picture of before an exposure shows markers after it") {
  Fixture f;
  f.turn();
  REQUIRE(f.played.ports.frame_copy.search.pending());
  const bool was_taken = GENERATE(false, true);
  if (was_taken) {  // and is being searched
    f.show(kSpots, 7);
    f.turn(0);
  }
  REQUIRE(f.why_not({.exposure_us = 1500, .gain_db = {}}).empty());
  if (!was_taken) f.show(kSpots, 7);
  for (const Spots& spots : {kSpots, Spots{}}) {
    Asker other;
    CHECK(refused_at_once([&] { f.keeper.find(other.answer(), f.now_ns); }) == "busy");
    CHECK(refused_at_once([&] { f.keeper.find_place({}, other.answer(), f.now_ns); }) == "busy");
    f.step(1100);
    f.show(spots, 8);
    f.step();
  }
  CHECK_FALSE(f.played.ports.frame_copy.search.pending());
  f.obey();
  f.step();
  f.step(100);
  f.frame_now();
  CHECK(f.asker.code().empty());
  CHECK_FALSE(f.exposure.pending());
  CHECK_FALSE(f.keeper.has_markers());
  f.step(1100);
  REQUIRE(f.played.ports.frame_copy.search.pending());
  f.show(moved(kSpots, 2, 0), 9);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  f.turn();
  CHECK(f.given()[0].x_px != Approx(1000 + kSpots[0].first).margin(1));
}

TEST_CASE("a gain other than the configured one is told where the noise is that of the other") {
  Fixture f;
  f.config.camera.gain_db = 0;
  f.source.described.gain_db = 6;
  f.camera.look();
  CHECK(f.exposure.now()["warning"] == "");
  f.config.camera.gain_e_per_adu = 4;
  CHECK_THAT(f.exposure.now()["warning"].get<std::string>(),
             contains("are for 0 dB (camera.gain_db), and the gain is 6 dB"));
  f.source.described.gain_db = 0.05;
  f.camera.look();
  CHECK(f.exposure.now()["warning"] == "");
}
