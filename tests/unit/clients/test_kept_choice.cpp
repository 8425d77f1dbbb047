// SPDX-License-Identifier: MIT
// What somebody chose, as keys of the configuration that load.
#include "clients/common/kept_choice.hpp"

#include <stdexcept>
#include <string>

#include "config/config.hpp"
#include "support/catch.hpp"

namespace driftd::clients {
namespace {

using nlohmann::json;

json marker(int id, const char* role, json x_px, json y_px) {
  return {{"id", id}, {"role", role}, {"x_px", std::move(x_px)}, {"y_px", std::move(y_px)}};
}

const json kFitter = {{"fitter", {{"spot_sigma_px", 1.3149}, {"roi_px", 15}}}};

/// Section by section, as a file has them.
std::string yaml(const KeyValues& values) {
  std::string text;
  for (const auto& [key, value] : values) {
    const std::size_t dot = key.find('.');
    if (key == "markers.list")
      text += "  list: " + value + "\n";  // behind markers.mode
    else
      text += key.substr(0, dot) + ":\n  " + key.substr(dot + 1) + ": " + value + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("markers that were chosen are kept as a list, with the size that the image told") {
  const json reply = {{"chosen", true},
                      {"markers",
                       {marker(1, "tracking", 101.2042, 55.9313), marker(7, "tracking", 20, 180.5),
                        marker(9, "tracking", 200.25, 30), marker(12, "witness", 150, 150)}}};
  const KeyValues values = markers_to_keep(reply, kFitter);
  const config::Config config = config::load_text(yaml(values), "markers.yaml");
  CHECK(config.markers.mode == config::MarkerMode::List);
  REQUIRE(config.markers.list.size() == 4);
  CHECK(config.markers.list[0] ==
        config::ListedMarker{1, 101.2, 55.93, control::MarkerRole::Tracking});
  CHECK(config.markers.list[3] == config::ListedMarker{12, 150, 150, control::MarkerRole::Witness});
  CHECK(config.optics.spot_sigma_px == 1.31);
  CHECK(config.fitter.roi_px == 15);
  // As configured: nothing is taken the place of.
  const KeyValues without =
      markers_to_keep(reply, {{"fitter", {{"spot_sigma_px", nullptr}, {"roi_px", 15}}}});
  CHECK(without.size() == 2);
}

TEST_CASE("markers that nobody chose, or that are not seen, are not kept") {
  json reply = {{"markers", json::array({marker(1, "tracking", 10, 20)})}, {"chosen", false}};
  CHECK_THROWS_WITH(markers_to_keep(reply, kFitter), contains("no markers were chosen"));
  reply.erase("chosen");  // a driftd that cannot say it
  CHECK_THROWS_WITH(markers_to_keep(reply, kFitter), contains("no markers were chosen"));
  reply["chosen"] = true;
  CHECK(markers_to_keep(reply, kFitter).size() == 4);
  reply["markers"].push_back(marker(3, "witness", nullptr, nullptr));
  CHECK_THROWS_WITH(markers_to_keep(reply, kFitter), contains("no frame shows marker 3 now"));
}

TEST_CASE("exposure and gain are kept as far as the camera tells them") {
  const json both = {{"exposure", {{"exposure_us", 812.5}, {"gain_db", 6.02}}}};
  CHECK(exposure_to_keep(both) ==
        KeyValues{{"camera.exposure_us", "812.5"}, {"camera.gain_db", "6.02"}});
  const json one = {{"exposure", {{"exposure_us", 1000000.0}, {"gain_db", nullptr}}}};
  CHECK(exposure_to_keep(one) == KeyValues{{"camera.exposure_us", "1000000"}});
  CHECK_THROWS_WITH(exposure_to_keep({{"exposure", {{"exposure_us", nullptr}}}}),
                    contains("tells neither"));
}

}  // namespace driftd::clients
