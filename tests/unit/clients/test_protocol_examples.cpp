// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/protocol_examples.hpp"

using driftd::test::protocol_differences;
using driftd::test::protocol_examples;
using nlohmann::json;

TEST_CASE("Every topic of the protocol has an example") {
  const auto examples = protocol_examples();
  for (const char* topic : {"position", "correction", "markers", "status", "event"}) {
    INFO(topic);
    REQUIRE(examples.count(topic) == 1);
    CHECK(protocol_differences(examples, topic, examples.at(topic)).empty());
  }
}

TEST_CASE("A message that differs from its documentation is told apart") {
  const auto examples = protocol_examples();
  json status = examples.at("status");

  SECTION("a number may be null or whole") {
    status["drift"]["x_nm"] = nullptr;
    status["uptime_s"] = 12;
    CHECK(protocol_differences(examples, "status", status).empty());
  }
  SECTION("a missing key, however deep") {
    status["latency_us"]["cut"].erase("p99");
    CHECK(protocol_differences(examples, "status", status) ==
          std::vector<std::string>{"/latency_us/cut/p99: documented, missing"});
  }
  SECTION("a key too many") {
    status["camera"]["colour"] = "red";
    CHECK(protocol_differences(examples, "status", status) ==
          std::vector<std::string>{"/camera/colour: not documented"});
  }
  SECTION("another type") {
    status["camera"]["connected"] = 1;
    CHECK(protocol_differences(examples, "status", status).size() == 1);
  }
  SECTION("a null where the documentation has text") {
    status["state"] = nullptr;
    CHECK(protocol_differences(examples, "status", status).size() == 1);
  }
  SECTION("any element of an array") {
    json markers = examples.at("markers");
    markers["markers"].push_back(markers["markers"][0]);
    markers["markers"][1].erase("health");
    CHECK(protocol_differences(examples, "markers", markers) ==
          std::vector<std::string>{"/markers/1/health: documented, missing"});
  }
}

TEST_CASE("An event of another code needs the common fields only") {
  const auto examples = protocol_examples();
  json event = examples.at("event");
  event["code"] = "camera_connected";
  event.erase("previous");
  event["anything"] = 1;
  CHECK(protocol_differences(examples, "event", event).empty());
  event.erase("text");
  CHECK(protocol_differences(examples, "event", event).size() == 1);
}

TEST_CASE("An unknown topic is not documented") {
  CHECK(protocol_differences(protocol_examples(), "weather", json::object()).size() == 1);
}
