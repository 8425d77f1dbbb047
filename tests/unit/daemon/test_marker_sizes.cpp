// SPDX-License-Identifier: MIT
// Sizes that are to be chosen from the image: what the markers' keeper makes of them.
#include <string>
#include <vector>

#include "daemon/compose.hpp"
#include "marker_keeper_fixture.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;

namespace {

struct AutoFixture : KeeperFixture {
  AutoFixture() {
    config.optics.spot_sigma_px = 0;
    config.fitter.roi_px = 0;
    config.fitter.backend = config::Backend::Cpu;
    config.fitter.estimator = config::Estimator::LeastSquares;
  }
  const MarkerSet& set() const { return *last(Kind::Markers)->markers; }
};

}  // namespace

TEST_CASE("spots of another width than assumed get a ROI and a fitter of their own") {
  AutoFixture f;
  const std::shared_ptr<fitter::LiveFitter> first = f.fitter.fitter;
  f.turn();
  f.show(kSpots, 1, 2.2);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  REQUIRE(f.told.codes() == std::vector<std::string>{"spot_size_chosen", "markers_found"});
  CHECK(f.told.events[0]["spot_sigma_px"].get<double>() == Approx(2.2).epsilon(0.03));
  const int roi_px = f.told.events[0]["roi_px"];
  CHECK(roi_px >= 19);
  CHECK(roi_px <= 25);
  REQUIRE(f.keeper.size());
  CHECK(f.keeper.size()->roi_px == roi_px);
  CHECK(f.told.events[0]["text"] == f.keeper.size()->reason);
  CHECK(f.set().estimator.markers().size() == kSpots.size());
  CHECK(f.set().fitter == f.fitter.fitter);
  CHECK(f.fitter.fitter != first);
  CHECK(f.fitter.fitter->roi_px() == roi_px);
  CHECK(f.fitter.fitter->capacity() == marker_capacity(f.config));
  CHECK(f.fitter.reason == "fitter.backend is `cpu`");
  // In its middle, whatever its side.
  CHECK(f.set().tracker.origin(0).x_px ==
        std::lround(f.set().estimator.markers()[0].x_px - 0.5 * (roi_px - 1)));
}

TEST_CASE("spots of the width assumed keep the fitter; an equal choice is told once") {
  AutoFixture f;
  const std::shared_ptr<fitter::LiveFitter> first = f.fitter.fitter;
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  CHECK(f.fitter.fitter == first);
  CHECK(f.set().fitter == first);
  REQUIRE(f.keeper.size());
  CHECK(f.keeper.size()->roi_px == 13);
  Asker asker;
  f.keeper.find(asker.answer(), f.now_ns);
  f.turn();
  f.show(kSpots, 5);
  REQUIRE(f.until([&] { return f.told.events.size() == 3; }));
  CHECK(f.told.codes() ==
        std::vector<std::string>{"spot_size_chosen", "markers_found", "markers_found"});
}

TEST_CASE("a `find` chooses anew, and back; the fitter before outlives its markers") {
  AutoFixture f;
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  const std::weak_ptr<fitter::LiveFitter> first = f.fitter.fitter;
  Asker asker;
  f.keeper.find(asker.answer(), f.now_ns);
  f.turn();
  f.show(kSpots, 5, 2.5);
  REQUIRE(f.until([&] { return f.told.events.size() == 4; }));
  CHECK(f.keeper.size()->sigma_px == Approx(2.5).epsilon(0.03));
  CHECK(f.fitter.fitter->roi_px() == f.keeper.size()->roi_px);
  f.played.taken.clear();
  CHECK_FALSE(first.expired());  // the loop's last report may name it
  f.keeper.find(asker.answer(), f.now_ns);
}

TEST_CASE("a size that is given is kept, and the other one chosen with it") {
  AutoFixture f;
  f.config.fitter.roi_px = 17;
  f.turn();
  f.show(kSpots, 1, 1.6);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  CHECK(f.keeper.size()->roi_px == 17);
  CHECK(f.keeper.size()->sigma_px == Approx(1.6).epsilon(0.03));
  CHECK(f.fitter.fitter->roi_px() == 17);
}

TEST_CASE("an image without spots says so, and nothing is chosen") {
  AutoFixture f;
  const std::shared_ptr<fitter::LiveFitter> first = f.fitter.fitter;
  f.turn();
  f.show({});
  REQUIRE(f.until([&] { return !f.told.events.empty(); }));
  CHECK(f.told.codes() == std::vector<std::string>{"markers_not_found"});
  CHECK_THAT(f.told.events[0]["text"].get<std::string>(),
             contains("found 0 markers, need 3 (drift.min_markers); nothing chosen: no spot of"));
  CHECK_FALSE(f.keeper.size());
  CHECK(f.fitter.fitter == first);
}
