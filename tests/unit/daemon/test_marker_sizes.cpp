// SPDX-License-Identifier: MIT
// Sizes that are to be chosen from the image: what the markers' keeper makes of them.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "daemon/setup/compose.hpp"
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
  /// What the loop was given last.
  const MarkerSet& set() {
    turn();
    return *last(Kind::Markers)->markers;
  }
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
  CHECK_THAT(f.fitter.fitter->description(), contains("cpu"));
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
  std::uint64_t frame = 1;
  const auto measured = [&] {
    f.turn();
    f.played.tell_markers(++frame, f.set().estimator.markers());
    f.turn();
  };
  const auto find = [&](double sigma_px) {
    const std::size_t events = f.told.events.size();
    Asker asker;
    f.keeper.find(asker.answer(), f.now_ns);
    f.turn();
    f.show(kSpots, ++frame, sigma_px);
    REQUIRE(f.until([&] { return f.told.events.size() == events + 2; }));
    measured();
    REQUIRE(asker.answered());
  };
  f.turn();
  f.show(kSpots);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  measured();
  f.fitter.reason = "as it was";
  const std::weak_ptr<fitter::LiveFitter> first = f.fitter.fitter;
  find(2.5);
  CHECK(f.keeper.size()->sigma_px == Approx(2.5).epsilon(0.03));
  CHECK(f.fitter.fitter->roi_px() == f.keeper.size()->roi_px);
  CHECK(f.fitter.reason == "as it was");  // back end and estimator are not chosen again
  f.played.taken.clear();
  CHECK_FALSE(first.expired());  // the loop's last report may name it
  find(1.3);
  CHECK(f.fitter.fitter->roi_px() == 13);
  f.played.taken.clear();
  CHECK(first.expired());
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

TEST_CASE("too few spots of another width leave the fitter as it is") {
  AutoFixture f;
  const std::shared_ptr<fitter::LiveFitter> first = f.fitter.fitter;
  f.turn();
  f.show({kSpots[0], kSpots[2]}, 1, 2.5);
  REQUIRE(f.until([&] { return !f.told.events.empty(); }));
  f.turn();
  CHECK(f.told.codes() == std::vector<std::string>{"markers_not_found"});
  CHECK(f.fitter.fitter == first);
  CHECK_FALSE(f.keeper.size());
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

namespace {

/// The status of a fit to the fitter's own staged spot, with one pixel at that value.
fitter::FitStatus status_with(fitter::LiveFitter& fitter, std::uint16_t value) {
  const int side = fitter.roi_px();
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      const double r2 = std::pow(x - side / 2, 2) + std::pow(y - side / 2, 2);
      fitter.staging(0)[y * side + x] =
          static_cast<std::uint16_t>(200 + 800 * std::exp(-r2 / (2 * 1.3 * 1.3)));
    }
  fitter.staging(0)[side / 2 * side + side / 2] = value;
  return fitter.fit(std::vector<fitter::Start>(1))[0].status;
}

}  // namespace

TEST_CASE("a level that many pixels share is taken for saturation, in the fits that follow, too") {
  AutoFixture f;
  f.turn();
  f.show_clipped(1200, 1);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  CHECK(f.told.codes() ==
        std::vector<std::string>{"spot_size_chosen", "saturation_found", "markers_found"});
  CHECK(f.told.events[1]["saturation_adu"] == 1200);
  CHECK(f.told.events[1]["pixels"].get<int>() >= 8);
  CHECK(f.set().estimator.markers().size() == kSpots.size() - 2);
  CHECK(f.set().fitter == f.fitter.fitter);
  CHECK(status_with(*f.fitter.fitter, 1200) == fitter::FitStatus::BadInput);
  CHECK(fitter::converged(status_with(*f.fitter.fitter, 1100)));
  // It is known from then on, and not told again.
  const auto fitter = f.fitter.fitter;
  Asker asker;
  f.keeper.find(asker.answer(), f.now_ns);
  f.turn();
  f.show_clipped(1200, 5);
  REQUIRE(f.until([&] { return f.told.events.size() == 4; }));
  CHECK(f.told.codes().back() == "markers_found");
  CHECK(f.fitter.fitter == fitter);
  CHECK(f.set().estimator.markers().size() == kSpots.size() - 2);
}

TEST_CASE("a saturation that is given, or that the camera says, is not looked for above it") {
  {
    AutoFixture f;
    f.config.camera.saturation_adu = 4000;
    f.turn();
    f.show_clipped(1200, 1);
    REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
    CHECK(f.told.codes() == std::vector<std::string>{"spot_size_chosen", "markers_found"});
  }
  AutoFixture f;
  f.source.described.largest_adu = 1200;
  f.camera.look();
  f.turn();
  f.show_clipped(1200, 1);
  REQUIRE(f.until([&] { return f.keeper.has_markers(); }));
  CHECK(f.told.codes() == std::vector<std::string>{"spot_size_chosen", "markers_found"});
  CHECK(f.set().estimator.markers().size() == kSpots.size() - 2);
}
