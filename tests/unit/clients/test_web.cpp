// SPDX-License-Identifier: MIT
// What the page is told: the last day in bounded memory, pictures, samples, wishes; and to whom.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "clients/web/history.hpp"
#include "clients/web/logins.hpp"
#include "clients/web/messages.hpp"
#include "clients/web/picture_pace.hpp"
#include "clients/web/recent_places.hpp"
#include "clients/web/request_rules.hpp"
#include "support/catch.hpp"

using namespace driftd::web;
using nlohmann::json;

namespace {

Sample sample_at(double t_s, double x_nm, bool in_lock = true) {
  Sample sample;
  sample.t_s = t_s;
  sample.in_lock = in_lock;
  sample.drift_nm = {x_nm, -x_nm};
  return sample;
}

std::uint32_t header_length(const std::string& message) {
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i)
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(message[i])) << (8 * i);
  return length;
}

json header_of(const std::string& message) {
  return json::parse(message.substr(4, header_length(message)));
}

std::string payload_of(const std::string& message) {
  return message.substr(4 + header_length(message));
}

unsigned pixel(const std::string& payload, std::size_t i) {
  return static_cast<unsigned char>(payload.at(2 * i)) +
         256U * static_cast<unsigned char>(payload.at(2 * i + 1));
}

/// Each pixel is 100 y + x.
Snapshot numbered(int width, int height, int bits = 16) {
  Snapshot snapshot;
  snapshot.frame = {{"frame_id", 7},        {"width_px", width}, {"height_px", height},
                    {"offset_x_px", 20},    {"offset_y_px", 30}, {"bits", bits},
                    {"rois", json::array()}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto value = static_cast<unsigned>(100 * y + x);
      snapshot.pixels += static_cast<char>(value & 0xffU);
      snapshot.pixels += static_cast<char>((value >> 8U) & 0xffU);
    }
  }
  return snapshot;
}

}  // namespace

TEST_CASE("a frame that stood out is in the history") {
  History history;
  for (int frame = 0; frame < 5000; ++frame)
    history.add(sample_at(100 + 0.002 * frame, frame == 1234 ? 55.5 : 1, frame < 1250));
  history.add(sample_at(110, 0));
  const json whole = history.whole();
  CHECK(whole["t0_s"] == 100);
  CHECK(whole["step_s"] == 10);
  CHECK(whole["span_s"] == 86400);
  REQUIRE(whole["min"]["drift_nm"][0].size() == 1);  // the second bin is not over
  CHECK(whole["min"]["drift_nm"][0][0] == 1);
  CHECK(whole["max"]["drift_nm"][0][0] == 55.5);
  CHECK(whole["min"]["drift_nm"][1][0] == -55.5);
  CHECK(whole["max"]["residual_nm"][0][0].is_null());
  CHECK(whole["in_lock"][0] == 0.25);
}

TEST_CASE("each bin is told once, and gaps are null") {
  History history;
  CHECK_FALSE(history.news());
  history.add(sample_at(5, 1));
  CHECK_FALSE(history.news());
  history.add(sample_at(41, 2));
  const auto news = history.news();
  REQUIRE(news);
  CHECK((*news)["append"] == true);
  CHECK((*news)["t0_s"] == 0);
  CHECK((*news)["min"]["drift_nm"][0] == json::parse("[1.0, null, null, null]"));
  CHECK((*news)["in_lock"] == json::parse("[1.0, null, null, null]"));
  CHECK_FALSE(history.news());
  history.add(sample_at(52, 3));
  CHECK((*history.news())["t0_s"] == 40);
}

TEST_CASE("a day of history is kept, and no more") {
  History history;
  for (int bin = 0; bin < 3 * History::kBins; ++bin) {
    history.add(sample_at(10.0 * bin + 3, bin));
    const auto news = history.news();
    if (bin == 0) continue;
    REQUIRE(news);
    REQUIRE((*news)["in_lock"].size() == 1);
  }
  const json whole = history.whole();
  CHECK(whole["in_lock"].size() == static_cast<std::size_t>(History::kBins));
  CHECK(whole["t0_s"] == 10.0 * (2 * History::kBins - 1));
  CHECK(whole["min"]["drift_nm"][0].back() == 3 * History::kBins - 2);
  // A night without frames is not filled bin by bin.
  history.add(sample_at(1e9, 1));
  history.add(sample_at(1e9 + 10, 1));
  CHECK(history.whole()["in_lock"].size() == 1);
  history.add(sample_at(1e300, 1));
  history.add(sample_at(std::numeric_limits<double>::quiet_NaN(), 1));
  CHECK(history.whole()["in_lock"].size() == 1);
}

TEST_CASE("a clock that went back begins the history anew") {
  History history;
  history.add(sample_at(1000, 1));
  history.add(sample_at(1010, 1));
  REQUIRE(history.news());
  history.add(sample_at(20, 2));
  const auto anew = history.news();
  REQUIRE(anew);
  CHECK_FALSE(anew->contains("append"));
  CHECK((*anew)["in_lock"].empty());
  CHECK((*anew)["t0_s"] == 20);
  history.add(sample_at(30, 2));
  CHECK((*history.news())["append"] == true);
}

TEST_CASE("a sample has what a position tells, and null where it tells nothing") {
  const json position = json::parse(R"({"arrival_ns":90817263544,"state":"locked","valid":true,
    "x_nm":0.412,"y_nm":-0.093,"frame_x_nm":0.5,"frame_y_nm":-0.1,"witness_x_nm":null,"witness_y_nm":null,
    "in_lock":true,"set_x_nm":0.1,"set_y_nm":0.0})");
  const auto sample =
      sample_of(position.dump(), json::parse(R"({"total_x_nm":-18.204,"total_y_nm":7.77})"));
  REQUIRE(sample);
  const json message = samples_message({*sample, *sample}, true);
  CHECK(message["past"] == true);
  CHECK(message["t_s"][1] == 90.817264);
  CHECK(message["drift_nm"] == json::parse("[[0.412,0.412],[-0.093,-0.093]]"));
  CHECK(message["residual_nm"][0][0] == 0.4);
  CHECK(message["correction_nm"][1][0] == 7.77);
  CHECK(message["witness_nm"][0][0].is_null());
  CHECK(message["state"][0] == "locked");

  json invalid = position;
  invalid["valid"] = false;
  CHECK(std::isnan(sample_of(invalid.dump(), json())->residual_nm[0]));
  CHECK(std::isnan(sample_of(invalid.dump(), json())->drift_nm[0]));
  json unlocked = position;
  unlocked["set_x_nm"] = nullptr;
  CHECK(std::isnan(sample_of(unlocked.dump(), json())->residual_nm[0]));
  CHECK(sample_of(unlocked.dump(), json())->drift_nm[0] == 0.412);
  for (const char* wrong :
       {"", "7", "[]", "null", "{}", R"({"arrival_ns":"x"})", R"({"arrival_ns":1)",
        R"({"arrival_ns":1,"a":{}})", R"({"arrival_ns":1,"a":[]})", R"({"arrival_ns":1}{})"})
    CHECK_FALSE(sample_of(wrong, json()));
}

TEST_CASE("z is told where it is measured, and not even named where it is not") {
  const json position = json::parse(R"({"arrival_ns":90817263544,"state":"locked","valid":true,
    "x_nm":0.4,"y_nm":-0.1,"z_nm":-12.5,"frame_x_nm":0.5,"frame_y_nm":-0.1,"in_lock":true})");
  json flat = position;
  flat["z_nm"] = nullptr;
  const auto deep = sample_of(position.dump(), json()), without = sample_of(flat.dump(), json());
  REQUIRE((deep && without));
  CHECK(samples_message({*without, *deep}, false)["z_nm"] == json::parse("[null,-12.5]"));
  CHECK_FALSE(samples_message({*without}, false).contains("z_nm"));
  flat.erase("z_nm");  // an older daemon
  CHECK(std::isnan(sample_of(flat.dump(), json())->z_nm));

  History history;
  for (const double t_s : {1.0, 2.0, 11.0, 21.0}) {
    Sample sample = sample_at(t_s, 1);
    if (t_s < 10) sample.z_nm = 7 * t_s;
    history.add(sample);
  }
  CHECK(history.whole()["min"]["z_nm"] == json::parse("[7.0,null]"));
  CHECK(history.whole()["max"]["z_nm"] == json::parse("[14.0,null]"));
  History shallow;
  for (const double t_s : {1.0, 11.0}) shallow.add(sample_at(t_s, 1));
  CHECK_FALSE(shallow.whole()["min"].contains("z_nm"));
}

TEST_CASE("the correction of z is told beside those of x and y") {
  const std::string position = R"({"arrival_ns":1000000000,"state":"locked","z_nm":null})";
  const auto flat = sample_of(position, json::parse(R"({"total_x_nm":-18.2,"total_y_nm":7.7})"));
  const auto alone = sample_of(position, json::parse(R"({"total_z_nm":31.5})"));
  REQUIRE((flat && alone));
  CHECK_FALSE(samples_message({*flat}, false).contains("correction_z_nm"));
  const json message = samples_message({*flat, *alone}, false);
  CHECK(message["correction_z_nm"] == json::parse("[null,31.5]"));
  CHECK(message["correction_nm"] == json::parse("[[-18.2,null],[7.7,null]]"));
  CHECK_FALSE(message.contains("z_nm"));

  History history;
  for (const double t_s : {1.0, 2.0, 11.0, 21.0}) {
    Sample sample = sample_at(t_s, 1);
    if (t_s < 10) sample.correction_z_nm = 7 * t_s;
    history.add(sample);
  }
  CHECK(history.whole()["min"]["correction_z_nm"] == json::parse("[7.0,null]"));
  CHECK(history.whole()["max"]["correction_z_nm"] == json::parse("[14.0,null]"));
  CHECK_FALSE(history.whole()["min"].contains("z_nm"));
}

TEST_CASE("a page is shown at most a frame each 50 ms, and slow cameras whole") {
  SampleSieve fast;
  int shown = 0;
  for (int frame = 0; frame < 5000; ++frame) shown += fast.passes(0.002 * frame) ? 1 : 0;
  CHECK(shown >= 190);
  CHECK(shown <= 223);  // 10 s by 45 ms
  SampleSieve slow;
  for (int frame = 0; frame < 100; ++frame)
    CHECK(slow.passes(0.05 * frame + (frame % 2 == 0 ? 0.001 : -0.001)));
  CHECK(slow.passes(1));  // another clock
}

TEST_CASE("a picture small enough comes as it is") {
  const auto message = image_message(numbered(64, 48), {});
  REQUIRE(message);
  const json header = header_of(*message);
  CHECK(header["width"] == 64);
  CHECK(header["height"] == 48);
  CHECK(header["bin"] == 1);
  CHECK(header["offset_x_px"] == 20);
  CHECK(payload_of(*message) == numbered(64, 48).pixels);
}

TEST_CASE("a large picture is binned by means to what fits") {
  const auto message = image_message(numbered(1030, 11), {});
  REQUIRE(message);
  const json header = header_of(*message);
  CHECK(header["bin"] == 3);
  CHECK(header["width"] == 343);
  CHECK(header["height"] == 3);
  const std::string payload = payload_of(*message);
  REQUIRE(payload.size() == 2U * 343 * 3);
  // The mean of 100 y + x over x 3..5 and y 6..8: that of its middle.
  CHECK(pixel(payload, 2 * 343 + 1) == 704);
}

TEST_CASE("a region is cut from the frame, and no more than there is") {
  const Region inside = {10, 5, 20, 8};
  const auto message = image_message(numbered(64, 48), {inside});
  REQUIRE(message);
  CHECK(header_of(*message)["x0"] == 10);
  CHECK(header_of(*message)["y0"] == 5);
  CHECK(payload_of(*message).size() == 2U * 20 * 8);
  CHECK(pixel(payload_of(*message), 21) == 611);
  for (const Region& beyond : {Region{60, 40, 100, 100}, Region{-5, -5, 1000, 1000},
                               Region{500, 500, 1, 1}, Region{0, 0, 0, -3}, Region{63, 47, 1, 1}}) {
    const auto cut = image_message(numbered(64, 48), {beyond});
    REQUIRE(cut);
    const json header = header_of(*cut);
    CHECK(header["x0"].get<int>() + header["width"].get<int>() <= 64);
    CHECK(header["y0"].get<int>() + header["height"].get<int>() <= 48);
    CHECK(payload_of(*cut).size() ==
          2 * header["width"].get<std::size_t>() * header["height"].get<std::size_t>());
  }
}

TEST_CASE("saturated pixels are counted before they are averaged") {
  Snapshot snapshot = numbered(1024, 2, 12);
  for (char& byte : snapshot.pixels) byte = 0;
  snapshot.pixels[0] = static_cast<char>(0xff);
  snapshot.pixels[1] = 0x0f;
  CHECK(header_of(*image_message(snapshot, {}))["saturated"] == 1);
  CHECK(header_of(*image_message(snapshot, {}))["histogram"][63] == 1);
  CHECK(header_of(*image_message(snapshot, {}))["histogram"][0] == 2047);
  snapshot.saturation = 4000;
  CHECK(header_of(*image_message(snapshot, {}))["saturated_at"] == 4000);
  CHECK(header_of(*image_message(snapshot, {Region{2, 0, 10, 2}}))["saturated"] ==
        1);  // of the frame
}

TEST_CASE("what is no snapshot makes no picture") {
  for (const auto& [key, value] : {std::pair<const char*, json>{"width_px", 0},
                                   {"width_px", -1},
                                   {"width_px", 65},
                                   {"width_px", "a"},
                                   {"width_px", 9'000'000'000},
                                   {"height_px", nullptr},
                                   {"bits", 0},
                                   {"bits", 17}}) {
    Snapshot snapshot = numbered(64, 48);
    snapshot.frame[key] = value;
    CHECK_FALSE(image_message(snapshot, {}));
  }
  Snapshot cut = numbered(64, 48);
  cut.pixels.pop_back();
  CHECK_FALSE(image_message(cut, {}));
}

TEST_CASE("markers tell their photons where the gain is known") {
  const json markers = json::parse(R"({"frame_id":3,"markers":[
    {"id":1,"sigma_px":1.5,"amplitude_adu":1000},{"id":2,"sigma_px":null,"amplitude_adu":null}]})");
  const json known = markers_message(markers, 0.5);
  CHECK(known["markers"][0]["photons"] == 7069);  // 2 pi 1.5^2 1000 0.5
  CHECK(known["markers"][1]["photons"].is_null());
  CHECK(markers_message(markers, 0)["markers"][0]["photons"].is_null());
  CHECK(markers_message(json::object(), 1)["markers"].empty());
}

TEST_CASE("a wish changes what it mentions, and a wrong one nothing") {
  Wants wants;
  REQUIRE(take_wants(R"({"want":{"images":true}})", wants));
  REQUIRE(take_wants(R"({"want":{"region":[1,2.7,30,40]}})", wants));
  CHECK(wants.images);
  CHECK(wants.region == Region{1, 2, 30, 40});
  CHECK_FALSE(take_wants(R"({"want":{"region":null,"images":"no"}})", wants));
  CHECK(wants.region.has_value());
  REQUIRE(take_wants(R"({"want":{"region":null,"images":false,"spectrum":true}})", wants));
  CHECK_FALSE(wants.region.has_value());
  CHECK_FALSE(wants.images);
  CHECK(wants.spectrum);
  for (const char* wrong : {"", "null", "{}", R"({"want":[]})", R"({"want":{"region":[1,2,3]}})",
                            R"({"want":{"region":[1,2,3,1e300]}})", R"({"want":{},"and":1})"})
    CHECK_FALSE(take_wants(wrong, wants));
}

TEST_CASE("what is not known to observe acts") {
  CHECK(only_observes(json::parse(R"({"command":"status"})")));
  CHECK(only_observes(json::parse(R"({"command":"place","show":"a"})")));
  CHECK(only_observes(json::parse(R"({"command":"exposure"})")));
  CHECK(only_observes(json::parse(R"({"command":"calibration","axes":"z"})")));
  for (const char* acts :
       {R"({"command":"lock"})", R"({"command":"markers","find":true})",
        R"({"command":"markers","find":false})", R"({"command":"markers","add":[]})",
        R"({"command":"exposure","gain_db":0})", R"({"command":"status","show":1})",
        R"({"command":"place","show":"a","save":"b"})", R"({"command":"tomorrow"})",
        R"({"command":"calibrate","axes":"z"})", R"({"command":"status","axes":"z"})",
        R"({"command":7})", R"({})"})
    CHECK_FALSE(only_observes(json::parse(acts)));
}

TEST_CASE("a vibration is in the spectrum, over frames that are missing") {
  constexpr double kRateHz = 200, kLineHz = 23, kAmplitudeNm = 3;
  RecentPlaces recent;
  CHECK_FALSE(recent.spectrum());
  for (std::uint64_t frame = 0; frame < 8000; ++frame) {
    const double t_s = 50 + static_cast<double>(frame) / kRateHz;
    const double noise_nm = 0.1 * std::sin(static_cast<double>(frame * frame % 1009));
    const double nm = kAmplitudeNm * std::sin(2 * std::numbers::pi * kLineHz * t_s);
    if (frame % 97 < 2) continue;
    recent.add(1000 + frame, t_s, {nm + noise_nm, noise_nm});
  }
  const auto told = recent.spectrum();
  REQUIRE(told);
  CHECK(std::abs((*told)["rate_hz"].get<double>() - kRateHz) < 0.01);
  CHECK((*told)["seconds"].get<double>() <= RecentPlaces::kSeconds);
  REQUIRE_FALSE((*told)["lines"][0].empty());
  const json& line = (*told)["lines"][0][0];
  CHECK(std::abs(line["frequency_hz"].get<double>() - kLineHz) < 0.1);
  CHECK(std::abs(line["amplitude_nm"].get<double>() - kAmplitudeNm) < 0.2);
  const json& x = (*told)["density_nm2_per_hz"][0];
  CHECK(x.size() == (*told)["density_nm2_per_hz"][1].size());
  double mean_square = 0;
  for (const json& value : x)
    mean_square += value.get<double>() * (*told)["spacing_hz"].get<double>();
  CHECK(std::abs(mean_square - kAmplitudeNm * kAmplitudeNm / 2) < 0.2);
  CHECK((*told)["allan"][0].size() > 3);
  // A stream that begins anew is another one; so is one after a long gap.
  recent.add(5, 100, {0, 0});
  CHECK_FALSE(recent.spectrum());
}

TEST_CASE("the name in a Host header") {
  CHECK(name_of_host("localhost") == "localhost");
  CHECK(name_of_host("localhost:8080") == "localhost");
  CHECK(name_of_host("[::1]:80") == "[::1]");
  for (const char* wrong : {"", ":80", "a:", "a:b", "a:123456", "a b", "a@b", "a/b", "[::1",
                            "[g::1]", "[::1]x", "a:1:2", "\xc3\xa9"})
    CHECK(name_of_host(wrong).empty());
}

TEST_CASE("a cookie is one that is there once") {
  CHECK(cookie_in("a=1; b=2", "a") == "1");
  CHECK(cookie_in("a=1;b=2", "b") == "2");
  CHECK(cookie_in("a=b=c", "a") == "b=c");
  CHECK(cookie_in("a=", "a") == "");
  for (const char* none : {"", "a", "b=1", "aa=1", "A=1", "a=1; a=1", "b=a=1", " ; ;", "a =1"})
    CHECK_FALSE(cookie_in(none, "a"));
}

TEST_CASE("wrong tokens are few, and then seldom, from each address by itself") {
  constexpr std::int64_t kSecond = 1'000'000'000;
  Attempts attempts;
  int tried = 0;
  for (std::int64_t now_ns = 0; now_ns < 1000 * kSecond; now_ns += kSecond) {
    if (!attempts.may_try("192.0.2.1", now_ns)) continue;
    attempts.was_wrong("192.0.2.1", now_ns);
    ++tried;
  }
  CHECK(tried >= 100);
  CHECK(tried <= 105);
  CHECK(attempts.wrong() == static_cast<std::uint64_t>(tried));
  CHECK_FALSE(attempts.may_try("192.0.2.1", 1000 * kSecond));
  CHECK(attempts.may_try("192.0.2.2", 1000 * kSecond));
  CHECK(attempts.may_try("192.0.2.1", 1020 * kSecond));
  // Of a crowd the one that tried last is remembered, in bounded memory.
  for (int i = 0; i < 20'000; ++i) attempts.was_wrong(std::to_string(i), 2000 * kSecond + i);
  for (int i = 0; i < 5; ++i) attempts.was_wrong("last", 2001 * kSecond);
  CHECK_FALSE(attempts.may_try("last", 2001 * kSecond));
}

TEST_CASE("sessions are bounded, end by disuse and with their login") {
  const auto logins = parse_logins(
      "tokens: [{name: a, role: operate, token: 0123456789abcdef}, "
      "{name: b, role: observe, token: 0123456789abcdeg}]",
      "f");
  REQUIRE(logins.size() == 2);
  Sessions sessions(logins, "c");
  const auto request_with = [](const Header& cookie) {
    Request request;
    request.headers = {{"cookie", cookie.value.substr(0, cookie.value.find(';'))}};
    return request;
  };
  CHECK_FALSE(sessions.log_in("0123456789abcdef ", 0));
  CHECK_FALSE(sessions.log_in("", 0));
  const auto first = sessions.log_in("0123456789abcdef", 0);
  REQUIRE(first);
  const std::string id = sessions.of(request_with(*first), 1);
  REQUIRE(sessions.find(id) != nullptr);
  CHECK(sessions.find(id)->login.may_operate);
  const auto second = sessions.log_in("0123456789abcdeg", 2);
  REQUIRE(second);
  const std::string other = sessions.of(request_with(*second), 2);
  CHECK_FALSE(sessions.find(other)->login.may_operate);
  CHECK(sessions.find(other)->csrf != sessions.find(id)->csrf);
  sessions.use(id, Sessions::kIdleNs);
  sessions.end_idle(Sessions::kIdleNs + 10);
  CHECK(sessions.find(id) != nullptr);
  CHECK(sessions.find(other) == nullptr);
  for (std::size_t i = 0; i < Sessions::kMost; ++i)
    CHECK(sessions.log_in("0123456789abcdeg", Sessions::kIdleNs + 10).has_value());
  CHECK(sessions.find(id) == nullptr);  // the one that was not used for longest
  const auto last = sessions.log_in("0123456789abcdef", Sessions::kIdleNs + 20);
  sessions.set({logins[1]});
  CHECK(sessions.of(request_with(*last), Sessions::kIdleNs + 20).empty());
}

TEST_CASE("a picture is binned until it has few enough bytes") {
  const Snapshot snapshot = numbered(600, 300);
  const auto whole = image_message(snapshot, {});
  REQUIRE(whole);
  CHECK(header_of(*whole)["bin"] == 2);
  for (const std::size_t most : {524'288U, 131'072U, 32'768U, 8'192U, 2U}) {
    const auto image = image_message(snapshot, {std::nullopt, most});
    REQUIRE(image);
    const json header = header_of(*image);
    CHECK(payload_of(*image).size() <= std::max<std::size_t>(most, 4));
    CHECK(payload_of(*image).size() ==
          2 * header["width"].get<std::size_t>() * header["height"].get<std::size_t>());
    CHECK(header["histogram"] == header_of(*whole)["histogram"]);
  }
}

TEST_CASE("pictures are as large as their link takes in half a second, and it stays so") {
  constexpr std::int64_t kSecond = 1'000'000'000;
  // Bytes a second, way there and back in ms, and the size that it comes to.
  const std::array<std::array<double, 3>, 7> links = {{{1e3, 50, 8192},
                                                       {20e3, 5, 8192},
                                                       {60e3, 100, 8192},
                                                       {150e3, 20, 32'768},
                                                       {600e3, 400, 131'072},
                                                       {5e6, 1, 524'288},
                                                       {50e6, 300, 524'288}}};
  for (const auto& [bytes_per_s, way_ms, size] : links) {
    INFO(bytes_per_s << " bytes/s, " << way_ms << " ms");
    PicturePace pace;
    const auto way_ns = static_cast<std::int64_t>(way_ms * 1e6);
    pace.set_way_ns(way_ns);
    std::int64_t now_ns = 0, last_ns = 0, other_ns = 0, longest_ns = 0;
    while (now_ns < 600 * kSecond) {
      const std::size_t bytes = pace.most_bytes();
      const auto took_ns =
          way_ns + static_cast<std::int64_t>(1e9 * static_cast<double>(bytes) / bytes_per_s);
      now_ns += took_ns;
      pace.took(bytes, took_ns, now_ns);
      if (now_ns < 60 * kSecond) continue;  // until then it finds out
      if (bytes != static_cast<std::size_t>(size)) other_ns += took_ns;
      longest_ns = std::max(longest_ns, took_ns);
      last_ns = now_ns;
    }
    CHECK(other_ns < (last_ns - 60 * kSecond) / 20);  // tried again, and seldom
    if (bytes_per_s > 10e3) CHECK(longest_ns - way_ns < 4 * kSecond);
  }
}

TEST_CASE("small pictures say nothing of large ones") {
  PicturePace pace;
  const std::size_t before = pace.most_bytes();
  for (int i = 1; i < 1000; ++i) pace.took(1000, 1'000'000, std::int64_t{100'000'000} * i);
  CHECK(pace.most_bytes() == before);
}

TEST_CASE("a day of history comes in parts, whole and in order") {
  History history;
  for (int bin = 0; bin < 200; ++bin) history.add(sample_at(10.0 * bin + 3, bin));
  const json whole = history.whole();
  std::vector<json> values;
  double t0_s = 0;
  const auto parts = history.parts();
  CHECK(parts.size() == 3);
  for (const json& part : parts) {
    CHECK(part.contains("append") == (&part != &parts.front()));
    CHECK(part["t0_s"] == t0_s);
    t0_s += 10.0 * static_cast<double>(part["in_lock"].size());
    for (const json& value : part["max"]["drift_nm"][0]) values.push_back(value);
  }
  CHECK(json(values) == whole["max"]["drift_nm"][0]);
  CHECK(History().parts().size() == 1);  // of which a page sees that there is none
}
