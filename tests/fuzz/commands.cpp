// SPDX-License-Identifier: MIT
// Requests to the daemon, one a line; parts of one are apart by a zero byte. Among them what a
// stage's driver reports of itself.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/wire/request.hpp"
#include "fuzz/fuzz.hpp"
#include "unit/daemon/command_handlers_fixture.hpp"

namespace driftd::fuzz {
namespace {

using namespace daemon;
using daemon::test::HandlersFixture;
using nlohmann::json;

void check_reply(const json& id, const Outcome& outcome) {
  const std::string text = reply_text(id, outcome);
  require(text.size() < 64'000, "a reply is short", text);
  const json reply = json::parse(text, nullptr, false);
  require(reply.is_object() && reply.at("ok").is_boolean(), "a reply says whether it went well",
          text);
  if (id.contains("id")) require(reply.contains("id"), "a reply says whose it is", text);
  if (reply.at("ok").get<bool>()) return;
  const bool known = std::ranges::any_of(
      kRefusals, [&](const auto& refusal) { return reply.at("code") == refusal.second; });
  require(known && reply.at("code") != "internal", "a refusal has a code", text);
  const auto why = reply.at("error").get<std::string>();
  require(!why.empty() && why.size() < 600, "a refusal is a sentence", text);
}

bool is_within(std::optional<double> value, double min, double max) {
  return !value || (*value >= min && *value <= max);
}

void check_report(const StageReport& report) {
  constexpr double kMostNm = 1e9;
  require(!report.instance.empty() && !report.driver.empty(), "a report says whose it is");
  require(report.axes.size() <= 3, "a stage has three axes at most");
  for (const StageAxis& axis : report.axes) {
    require(axis.min_nm <= axis.max_nm && is_within(axis.min_nm, -kMostNm, kMostNm) &&
                is_within(axis.max_nm, -kMostNm, kMostNm) &&
                is_within(axis.resolution_nm, 0, kMostNm) &&
                is_within(axis.position_nm, -kMostNm, kMostNm) &&
                is_within(axis.target_nm, -kMostNm, kMostNm),
            "an axis has places that there are", axis.axis);
  }
  if (report.total_nm) {
    require(is_within(report.total_nm->x, -kMostNm, kMostNm) &&
                is_within(report.total_nm->y, -kMostNm, kMostNm),
            "a total is a place that there is");
  }
  require(is_within(report.rate_hz, 0, 1e6) && is_within(report.max_rate_hz, 0, 1e6),
          "rates are finite");
  for (const std::string* text :
       {&report.instance, &report.driver, &report.description, &report.text, &report.session}) {
    const bool line = std::ranges::none_of(
        *text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
    require(line && text->size() <= 300, "a report's texts are lines", *text);
  }
}

void request(HandlersFixture& house, std::string_view message, std::int64_t now_ns) {
  const auto parts = split(message, '\0', 20);
  json id = json::object();
  const auto answers = std::make_shared<int>(0);  // some are answered later
  try {
    const json body = read_request(parts.back(), parts.size(), id);
    // Would make a file.
    if (body["command"] == "record" && body.contains("start") && body["start"] == true) return;
    house.handlers.carry_out(
        body,
        [answers, id](const Outcome& outcome) {
          require(++*answers == 1, "a request is answered once");
          check_reply(id, outcome);
        },
        now_ns);
  } catch (const CommandRefused& refused) {
    check_reply(id, refused);
    require(*answers == 0, "what was refused was not answered before");
  }
}

}  // namespace

void commands(Bytes bytes) {
  HandlersFixture house;
  std::int64_t now_ns = 1'000'000'000;
  for (const std::string& message : split(text_of(bytes), '\n', 20)) {
    request(house, message, now_ns);
    house.played.turn();
    house.loop.refresh();
    now_ns += 100'000'000;
    house.stage.turn(now_ns);
    house.orders.turn(now_ns);
    house.moves.turn(now_ns);
    house.places.turn(now_ns);
    const json status = house.stage.status(now_ns);
    require(status.is_null() == !house.stage.report(), "the status tells of the driver");
    if (house.stage.report()) check_report(*house.stage.report());
    require(std::isfinite(house.stage.waiting_us()), "a delay is finite");
  }
  for (const json& event : house.told.events)
    require(event.contains("code") && event.contains("text"), "an event has code and text");
}

}  // namespace driftd::fuzz
