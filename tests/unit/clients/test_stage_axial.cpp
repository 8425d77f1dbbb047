// SPDX-License-Identifier: MIT
// z beside x and y, and alone: what its driver does with corrections, and how far z ever goes.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "clients/stage/interface/faults.hpp"
#include "clients/stage/program.hpp"
#include "driver_bench.hpp"
#include "support/catch.hpp"

namespace driftd::stage {
namespace {

using nlohmann::json;

constexpr double kStart_nm = 50'000;
constexpr double kLowest_nm = 49'000, kHighest_nm = 53'500;

Config config_of(const std::string& axes, const std::string& more = "") {
  return load_text(
      "controller: {driver: simulator, device: /fake}\n"
      "motion: {axes: " +
          axes + "}\n" + (axes == "xy" ? "" : "z: {min_nm: 49000, max_nm: 53500}\n") + more,
      "test");
}

/// It goes at once where it is told, and keeps what it was told, kStays included.
class SomeAxes : public Stage {
 public:
  explicit SomeAxes(std::string letters) : letters_(std::move(letters)) { place.fill(kStart_nm); }
  std::vector<Axis> connect() override {
    ++connects;
    std::vector<Axis> axes;
    for (const char letter : letters_)
      axes.push_back({.name = {letter},
                      .min_nm = 0,
                      .max_nm = 100'000,
                      .resolution_nm = 0.1,
                      .closed_loop = closed_loop});
    return axes;
  }
  std::string description() const override { return "some axes"; }
  void expires_at(std::int64_t ns) override { expires_ns = ns; }
  bool move_to(std::span<const double> nm) override {
    REQUIRE(nm.size() == letters_.size());
    PerStage target{};
    bool refuses = std::exchange(refuses_next, false);
    for (std::size_t i = 0; i < nm.size(); ++i) {
      target[i] = nm[i];
      if ((letters_[i] == 'z' ? refuses_z : refuses_xy) && !stays(nm[i])) refuses = true;
    }
    if (refuses) {
      answer = {.condition = Condition::Error, .error = 7, .text = "7: out of limits"};
      ++refused;
      owes_refusal = tells_late;
      return tells_late;
    }
    for (std::size_t i = 0; i < nm.size(); ++i)
      if (!stays(nm[i])) place[i] = nm[i];
    targets.push_back(target);
    times_ns.push_back(fake_now_ns);
    return true;
  }
  bool prepare() override { return !std::exchange(owes_refusal, false); }
  void read(std::span<double> nm) override {
    std::copy_n(place.begin(), nm.size(), nm.begin());
    ++reads_;
    if (noise_z_nm > 0) nm.back() += (reads_ % 2 == 0 ? 1 : -1) * reads_ * noise_z_nm;
  }
  Health health() override {
    Health health = std::exchange(answer, {});
    for (const AxisFault& fault : ill) add_axis_fault(health, fault);
    return health;
  }

  PerStage place{};
  std::vector<PerStage> targets;
  std::vector<std::int64_t> times_ns;  ///< of these
  Health answer;
  std::vector<AxisFault> ill;
  int connects = 0;
  bool refuses_z = false, refuses_xy = false, refuses_next = false, closed_loop = true;
  bool tells_late = false, owes_refusal = false;  ///< by prepare()
  double noise_z_nm = 0;
  int refused = 0;
  std::int64_t expires_ns = 0;

 private:
  std::string letters_;
  int reads_ = 0;
};

struct Bench {
  explicit Bench(const std::string& axes, const std::string& more = "")
      : config(config_of(axes, more)), stage(letters_of(config.motion.axes)) {
    fake_now_ns = 10'000 * kMs;
    for (std::size_t i = 0; i < groups_of(config.motion.axes).size(); ++i)
      boards.push_back(&all_boards[i]);
    driver.emplace(
        stage, config, boards, [this] { ++nudges; }, fake_clock);
    run(5);
  }
  void run(std::int64_t ms) {
    for (std::int64_t i = 0; i < ms; ++i) {
      driver->turn();
      fake_now_ns += kMs;
    }
  }
  void correct(const std::vector<std::string>& messages) {
    fake_now_ns += 2 * kMs;
    driver->turn();
    driver->corrections(messages);
  }
  static std::string message(const json& changes, const std::string& topic) {
    json body = {{"session", "a"},
                 {"lock_id", topic == "axial" ? 2 : 1},
                 {"sent_ns", fake_now_ns},
                 {"expires_ns", fake_now_ns + 20 * kMs}};
    body.update(changes);
    return topic + ' ' + body.dump();
  }
  static std::string xy(double total_nm, double delta_nm, json changes = json::object()) {
    changes.update({{"total_x_nm", total_nm},
                    {"total_y_nm", -total_nm},
                    {"delta_x_nm", delta_nm},
                    {"delta_y_nm", -delta_nm}});
    return message(changes, "correction");
  }
  static std::string z(double total_nm, double delta_nm, json changes = json::object()) {
    changes.update({{"total_z_nm", total_nm}, {"delta_z_nm", delta_nm}});
    return message(changes, "axial");
  }
  std::string state(std::size_t board) const {
    return std::string(standing(all_boards[board].state(), 0).state);
  }

  Config config;
  SomeAxes stage;
  std::array<Board, kGroups> all_boards;
  std::vector<Board*> boards;
  int nudges = 0;
  std::optional<Driver> driver;
};

bool is(const PerStage& target, double x, double y, double z) {
  const auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) < 1e-9;
  };
  return same(target[0], x) && same(target[1], y) && same(target[2], z);
}

}  // namespace

TEST_CASE("corrections of x, y and z are one move where they come together", "[stage]") {
  Bench bench("xyz");
  bench.correct({Bench::xy(3, 3), Bench::z(-4, -4)});
  REQUIRE(bench.stage.targets.size() == 1);
  CHECK(is(bench.stage.targets[0], kStart_nm + 3, kStart_nm - 3, kStart_nm - 4));
  // The earlier of both ends.
  bench.correct({Bench::z(-5, -1, {{"expires_ns", fake_now_ns + 7 * kMs}}), Bench::xy(4, 1)});
  CHECK(is(bench.stage.targets[1], kStart_nm + 4, kStart_nm - 4, kStart_nm - 5));
  CHECK(bench.stage.expires_ns == fake_now_ns + 5 * kMs);
  // A z that is not held is nobody's but who moves it by hand.
  bench.correct({Bench::xy(5, 1)});
  CHECK(is(bench.stage.targets[2], kStart_nm + 5, kStart_nm - 5, kStays));
  bench.correct({Bench::z(-6, -1)});
  CHECK(is(bench.stage.targets[3], kStays, kStays, kStart_nm - 6));
  CHECK(bench.driver->follows_several());
  bench.run(60);
  CHECK_FALSE(bench.driver->follows_several());
  CHECK(bench.all_boards[0].state().carried_out == 3);
  CHECK(bench.all_boards[1].state().carried_out == 3);
}

TEST_CASE("each group has a lock, a zero and a time of its own", "[stage]") {
  Bench bench("xyz");
  bench.correct({Bench::xy(3, 3), Bench::z(-4, -4)});
  bench.correct({Bench::z(1, 1, {{"lock_id", 3}})});  // from where it was
  CHECK(bench.stage.place[2] == kStart_nm - 3);
  bench.correct({Bench::z(90, 90)});  // of the lock before
  bench.correct({Bench::z(90, 90, {{"lock_id", 3}, {"expires_ns", fake_now_ns - 1}})});
  CHECK(bench.stage.place[2] == kStart_nm - 3);
  CHECK(bench.all_boards[1].state().ignored == 2);
  bench.correct({Bench::xy(4, 1)});
  CHECK(bench.stage.place[0] == kStart_nm + 4);
  CHECK(bench.all_boards[0].state().ignored == 0);
  // One that has expired leaves the other.
  bench.correct(
      {Bench::xy(9, 5, {{"expires_ns", fake_now_ns - 1}}), Bench::z(2, 1, {{"lock_id", 3}})});
  CHECK(is(bench.stage.targets.back(), kStays, kStays, kStart_nm - 2));
  // Another driver reports z to the daemon.
  bench.all_boards[1].muted = true;
  bench.correct({Bench::xy(5, 1), Bench::z(3, 1, {{"lock_id", 3}})});
  CHECK(is(bench.stage.targets.back(), kStart_nm + 5, kStart_nm - 5, kStays));
}

TEST_CASE("z alone follows its own topic, and x and y theirs", "[stage]") {
  Bench bench("z");
  bench.correct({Bench::xy(3, 3)});
  CHECK(bench.stage.targets.empty());
  bench.correct({Bench::z(-4, -4)});
  REQUIRE(bench.stage.targets.size() == 1);
  CHECK(bench.stage.place[0] == kStart_nm - 4);
  Bench flat("xy");
  flat.correct({Bench::z(-4, -4)});
  CHECK(flat.stage.targets.empty());
}

TEST_CASE("a target of z that is refused holds z alone", "[stage]") {
  Bench bench("xyz");
  bench.correct({Bench::xy(1, 1), Bench::z(1, 1)});
  bench.stage.refuses_z = true;
  bench.correct({Bench::xy(2, 1), Bench::z(2, 1)});  // told apart at once, as it is not known whose
  CHECK(bench.state(0) == "ready");
  CHECK(bench.state(1) == "error");
  for (int i = 3; i < 8; ++i) {
    bench.correct({Bench::xy(i, 1), Bench::z(i, 1)});
    bench.run(60);  // the controller is asked how it does, and speaks of z's target again
    CHECK(bench.state(0) == "ready");
    CHECK(bench.state(1) == "error");
  }
  CHECK(bench.all_boards[0].state().refused == 0);
  CHECK(bench.stage.place[0] == kStart_nm + 7);
  CHECK(bench.stage.place[2] == kStart_nm + 1);
  bench.stage.refuses_z = false;
  bench.correct({Bench::xy(8, 1), Bench::z(8, 1)});
  bench.run(120);
  CHECK(bench.state(1) == "ready");
  bench.correct({Bench::xy(9, 1), Bench::z(9, 1)});
  CHECK(is(bench.stage.targets.back(), kStart_nm + 9, kStart_nm - 9, kStart_nm + 9));
}

TEST_CASE("a refusal that the controller tells late holds whose target it was alone", "[stage]") {
  const bool of_z = GENERATE(true, false);
  INFO((of_z ? "z" : "x, y"));
  Bench bench("xyz");
  bench.stage.tells_late = true;
  bench.correct({Bench::xy(1, 1), Bench::z(1, 1)});
  (of_z ? bench.stage.refuses_z : bench.stage.refuses_xy) = true;
  for (int i = 2; i < 40; ++i) {
    bench.correct({Bench::xy(i, 1), Bench::z(i, 1)});
    bench.run(i % 3);
    CHECK(bench.state(of_z ? 0 : 1) == "ready");
  }
  CHECK(bench.state(of_z ? 1 : 0) == "error");
  CHECK(bench.stage.place[0] == Approx(of_z ? kStart_nm + 39 : kStart_nm + 1));
  CHECK(bench.stage.place[2] == Approx(of_z ? kStart_nm + 1 : kStart_nm + 39));
}

TEST_CASE("a move of all that is refused once, and never again, holds nobody", "[stage]") {
  Bench bench("xyz");
  bench.correct({Bench::xy(1, 1), Bench::z(1, 1)});
  bench.stage.refuses_next = true;
  bench.correct({Bench::xy(2, 1), Bench::z(2, 1)});
  for (int i = 3; i < 8; ++i) {
    CHECK(bench.state(0) == "ready");
    CHECK(bench.state(1) == "ready");
    bench.correct({Bench::xy(i, 1), Bench::z(i, 1)});
  }
  CHECK(is(bench.stage.targets.back(), kStart_nm + 7, kStart_nm - 7, kStart_nm + 7));
}

TEST_CASE("z goes on being told apart until one of its targets is taken", "[stage]") {
  // Nothing comes, and that is long enough for any refusal to be over.
  Bench bench("xyz");
  bench.correct({Bench::xy(1, 1), Bench::z(1, 1)});
  bench.stage.refuses_z = true;
  bench.correct({Bench::xy(2, 1), Bench::z(2, 1)});
  REQUIRE(bench.state(1) == "error");
  for (int i = 3; i < 8; ++i) {
    bench.run(40'000);  // longer than any refusal is told
    CHECK(bench.state(0) == "ready");
    CHECK(bench.state(1) == "ready");
    bench.correct({Bench::xy(i, 1), Bench::z(i, 1)});
    CHECK(bench.state(0) == "ready");
    CHECK(bench.state(1) == "error");
    CHECK(bench.stage.place[0] == Approx(kStart_nm + i));
  }
  CHECK(bench.stage.place[2] == kStart_nm + 1);
  CHECK(bench.all_boards[0].state().refused == 0);
  bench.stage.refuses_z = false;
  bench.run(40'000);
  bench.correct({Bench::xy(8, 1), Bench::z(8, 1)});
  bench.run(1);  // the controller has confirmed it
  const std::size_t moves = bench.stage.targets.size();
  bench.correct({Bench::xy(9, 1), Bench::z(9, 1)});
  CHECK(bench.stage.targets.size() == moves + 1);
  CHECK(is(bench.stage.targets.back(), kStart_nm + 9, kStart_nm - 9, kStart_nm + 9));
}

TEST_CASE("a sensor of z that tells nonsense leaves x and y", "[stage]") {
  Bench bench("xyz");
  bench.stage.noise_z_nm = 3000;
  bench.correct({Bench::xy(1, 1), Bench::z(1, 1)});
  CHECK(is(bench.stage.targets.back(), kStart_nm + 1, kStart_nm - 1, kStays));
  bench.correct({Bench::z(2, 1)});
  CHECK(bench.stage.targets.size() == 1);
  CHECK(bench.all_boards[1].state().ignored == 2);
  CHECK(bench.all_boards[0].state().ignored == 0);
}

TEST_CASE("z at the end of its range is told of z alone", "[stage]") {
  Bench bench("xyz");
  for (int i = 1; i <= 300; ++i) bench.correct({Bench::xy(i, 1), Bench::z(-5.0 * i, -5)});
  CHECK(bench.stage.place[2] == kLowest_nm);
  CHECK(bench.state(0) == "ready");
  CHECK(bench.state(1) == "limit");
  CHECK(standing(bench.all_boards[1].state(), 0).text.starts_with("z is at the end of its range"));
}

TEST_CASE("a report of z has its own names, and those of x and y are as they were", "[stage]") {
  Bench bench("xyz");
  bench.correct({Bench::xy(3, 3), Bench::z(-4, -4)});
  const auto report = [&](std::size_t board, Group group) {
    const Introduction who{.instance = "0", .driver = "d", .max_rate_hz = 1, .group = group};
    return json::parse(report_json(who, bench.all_boards[board].state(), {}, 0, false, 1));
  };
  const json z = report(1, Group::Axial);
  REQUIRE(z["axes"].size() == 1);
  CHECK(z["axes"][0]["axis"] == "z");
  CHECK(z["axes"][0]["min_nm"] == kLowest_nm);
  CHECK(z["axes"][0]["max_nm"] == kHighest_nm);
  CHECK(z["axes"][0]["target_nm"] == kStart_nm - 4);
  CHECK(z["z_session"] == "a");
  CHECK(z["z_lock_id"] == 2);
  CHECK(z["total_z_nm"] == 0.0);  // not read since
  for (const char* key : {"session", "lock_id", "total_x_nm", "total_y_nm"})
    CHECK(!z.contains(key));
  const json xy = report(0, Group::Lateral);
  REQUIRE(xy["axes"].size() == 2);
  CHECK(xy["axes"][1]["axis"] == "y");
  CHECK(xy["lock_id"] == 1);
  for (const char* key : {"z_session", "z_lock_id", "total_z_nm"}) CHECK(!xy.contains(key));
  bench.run(60);
  CHECK(report(1, Group::Axial)["total_z_nm"] == -4.0);
}

TEST_CASE("whatever comes, z stays within its ends, its range and its steps", "[stage]") {
  // An objective must not meet a cover glass: each message is one that no daemon sends, or not now.
  const unsigned seed = GENERATE(1U, 2U, 3U, 4U);
  const bool beside_xy = GENERATE(false, true);
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto wild = [&] {
    constexpr double kLengths[] = {0,    1,     -1,     8,     49,   -49,  51,
                                   -300, 1999,  2001,   -2001, 9999, -1e4, 1e6,
                                   -1e6, 9.9e8, -9.9e8, 1e9,   -1e9, 1e12, -1e300};
    return kLengths[pick(std::size(kLengths))];
  };
  Bench bench(beside_xy ? "xyz" : "z");
  const std::size_t at = beside_xy ? 2 : 0;
  std::vector<std::string> heard;
  double before_nm = kStart_nm, engaged_nm = kStart_nm;
  std::int64_t lock_id = 2;
  std::string session = "a";
  std::int64_t last_ns = fake_now_ns;
  std::size_t seen = 0, moved = 0;
  for (int i = 0; i < 20'000; ++i) {
    json changes = {{"lock_id", lock_id}, {"session", session}};
    const int kind = pick(40);
    if (kind == 0) changes["lock_id"] = lock_id += pick(3) + 1;
    if (kind == 1) changes["lock_id"] = lock_id - pick(3);
    if (kind == 2) changes["session"] = session = "s" + std::to_string(i);
    if (kind == 3) changes["session"] = "s" + std::to_string(pick(i + 1));
    if (kind == 4) changes["expires_ns"] = fake_now_ns - pick(1000) * kMs;
    if (kind == 5) changes["lock_id"] = -1;
    std::string message = Bench::z(wild(), wild(), changes);
    if (kind == 6) message = Bench::xy(wild(), wild(), changes);
    if (kind == 7) message.replace(0, 5, "correction");
    if (kind == 8) message.resize(static_cast<std::size_t>(pick(static_cast<int>(message.size()))));
    if (kind == 9) message.replace(message.find("total_z"), 7, "total_x");
    if (kind == 10) message.replace(message.find("_nm\":"), 5, "_nm\":1e999,\"a\":");
    if (kind == 11) message.replace(message.find("_nm\":"), 5, "_nm\":NaN,\"a\":");
    if (kind == 12 && !heard.empty())
      message = heard[static_cast<std::size_t>(pick(static_cast<int>(heard.size())))];
    if (kind == 13) message[static_cast<std::size_t>(pick(static_cast<int>(message.size())))] ^= 5;
    heard.push_back(message);
    if (heard.size() > 50) heard.erase(heard.begin());
    bench.correct(beside_xy && pick(2) == 0
                      ? std::vector<std::string>{Bench::xy(wild(), wild()), message}
                      : std::vector<std::string>{message});
    if (pick(200) == 0) bench.run(pick(400));
    for (; seen < bench.stage.targets.size(); ++seen) {
      const double target_nm = bench.stage.targets[seen][at];
      if (stays(target_nm)) continue;
      ++moved;
      INFO(message);
      REQUIRE(target_nm >= kLowest_nm);
      REQUIRE(target_nm <= kHighest_nm);
      const double step_nm = std::abs(target_nm - before_nm);
      REQUIRE(step_nm <= 50 + 1e-6);
      const std::int64_t now_ns = bench.stage.times_ns[seen];
      const double rate_nm = 2000e-9 * static_cast<double>(now_ns - last_ns);
      if (moved > 1) REQUIRE(step_nm <= rate_nm + 1e-6);
      last_ns = now_ns;
      // The range is of each lock, from where z was when it began.
      const DriverState state = bench.all_boards[beside_xy ? 1 : 0].state();
      static std::string of;
      if (const std::string now = *state.session + ' ' + std::to_string(state.lock_id); of != now) {
        of = now;
        engaged_nm = before_nm;
      }
      REQUIRE(std::abs(target_nm - engaged_nm) <= 2000 + 1e-6);
      before_nm = target_nm;
    }
  }
  CHECK(moved > 1000);
}

TEST_CASE("z without a sensor that somebody else moved does not jump back", "[stage]") {
  Bench bench("z");
  bench.stage.closed_loop = false;
  bench.driver.emplace(
      bench.stage, bench.config, bench.boards, [] {}, fake_clock);
  bench.run(5);
  bench.correct({Bench::z(-4, -4)});
  bench.run(500);
  bench.stage.place[0] += 2000;  // by a z-stack of another program
  bench.run(100);
  bench.correct({Bench::z(-3, -3, {{"lock_id", 3}})});
  CHECK(bench.stage.place[0] == kStart_nm - 4 + 2000 - 3);
  // One that was not moved goes on from its target, whatever its reading says of that.
  bench.run(500);
  bench.correct({Bench::z(5, 5, {{"lock_id", 4}})});
  CHECK(bench.stage.place[0] == kStart_nm - 4 + 2000 - 3 + 5);
}

TEST_CASE("a first correction that speaks of a far place takes z no farther than its range",
          "[stage]") {
  // As of a driver that was started in the middle of a lock, with a total that no lock has.
  Bench bench("z");
  for (int i = 0; i < 2000; ++i) bench.correct({Bench::z(0, i == 0 ? 1e6 : 0)});
  CHECK(bench.stage.place[0] == kStart_nm + 2000);
}

TEST_CASE("a z that somebody moves in mid-lock takes no new range with it", "[stage]") {
  Bench bench("z");
  bench.correct({Bench::z(0, 0)});
  for (int i = 1; i <= 3; ++i) {
    bench.run(500);
    bench.stage.place[0] += 600;  // three times: 1800 of the 2000 nm of its range
    bench.run(400);
    bench.correct({Bench::z(0, 0)});
    CHECK(bench.stage.place[0] == kStart_nm + 600 * i);
  }
  for (int i = 1; i <= 100; ++i) bench.correct({Bench::z(5.0 * i, 5)});
  CHECK(bench.stage.place[0] == kStart_nm + 2000);
  CHECK(bench.state(0) == "limit");
  // Moved beyond it, z stays or comes back, and the next lock has a range of its own.
  bench.run(500);
  bench.stage.place[0] = kStart_nm + 2500;
  bench.run(400);
  bench.correct({Bench::z(505, 5)});
  CHECK(bench.stage.place[0] == kStart_nm + 2500);
  bench.correct({Bench::z(498, -7)});
  CHECK(bench.stage.place[0] == Approx(kStart_nm + 2498));
  bench.run(500);
  bench.correct({Bench::z(5, 5, {{"lock_id", 3}})});
  CHECK(bench.stage.place[0] == Approx(kStart_nm + 2503));
}

TEST_CASE("a z that comes back with a reading beyond its end is not sent beyond it", "[stage]") {
  const bool high = GENERATE(false, true);
  const double sign = high ? 1 : -1, end_nm = high ? kHighest_nm : kLowest_nm;
  Follower follower(Group::Axial, std::array{config_of("z").z});
  const std::array axes = {
      Axis{.name = "z", .min_nm = 0, .max_nm = 100'000, .resolution_nm = 0.1, .closed_loop = true}};
  std::int64_t now_ns = 1000 * kMs;
  const auto move = [&](double total_nm, double delta_nm) {
    now_ns += 2 * kMs;
    Correction correction{.session = "a", .lock_id = 1, .expires_ns = now_ns + kMs};
    correction.total_nm[0] = sign * total_nm;
    correction.delta_nm[0] = sign * delta_nm;
    const Target target = follower.plan(correction, now_ns);
    follower.moved(target, now_ns);
    return target.nm[0];
  };
  follower.connected(axes, {end_nm - sign * 10});
  CHECK(move(4, 4) == Approx(end_nm - sign * 6));
  follower.connected(axes, {end_nm + sign * 40});  // within a step: it is where it was, or there
  CHECK(move(9, 5) == end_nm);
  CHECK(move(-1, -10) == Approx(end_nm - sign * 4));  // by the rate limit
  // Found outside by more, it may stay and come back.
  CHECK_FALSE(follower.beyond_ends_nm());
  follower.connected(axes, {end_nm + sign * 300});
  CHECK(follower.beyond_ends_nm() == end_nm + sign * 300);  // the driver sends nothing then
  CHECK(move(4, 5) == end_nm + sign * 300);
  CHECK(move(-4, -8) == Approx(end_nm + sign * 297));
}

TEST_CASE("what is wrong with an axis is its group's alone", "[stage]") {
  const auto condition =
      GENERATE(Condition::ServoOff, Condition::NotReferenced, Condition::Error, Condition::Limit);
  const std::size_t axis = GENERATE(0U, 1U, 2U);
  const std::size_t ill = axis == 2 ? 1 : 0, well = 1 - ill;
  const bool obeys = condition == Condition::Error || condition == Condition::Limit;
  Bench bench("xyz");
  bench.correct({Bench::xy(3, 3), Bench::z(-4, -4)});
  bench.stage.ill = {{axis, condition, "axis: ill", 9}};
  bench.run(200);
  CHECK(bench.state(ill) != "ready");
  CHECK(standing(bench.all_boards[ill].state(), 0).text == "axis: ill");
  CHECK(standing(bench.all_boards[ill].state(), 0).error == 9);
  CHECK(bench.state(well) == "ready");
  CHECK(standing(bench.all_boards[well].state(), 0).error == 0);
  const std::size_t before = bench.stage.targets.size();
  bench.correct({Bench::xy(4, 1), Bench::z(-5, -1)});
  REQUIRE(bench.stage.targets.size() == before + 1);
  const bool xy_goes = obeys || ill == 1, z_goes = obeys || ill == 0;
  CHECK(is(bench.stage.targets.back(), xy_goes ? kStart_nm + 4 : kStays,
           xy_goes ? kStart_nm - 4 : kStays, z_goes ? kStart_nm - 5 : kStays));
  CHECK(bench.all_boards[ill].state().ignored == (obeys ? 0 : 1));
  CHECK(bench.all_boards[well].state().ignored == 0);

  // Moved by hand meanwhile, it has a new zero; the other has gone on all the time.
  bench.stage.place[axis] += obeys ? 0 : 300;
  const double found_nm = bench.stage.place[axis];
  bench.stage.ill.clear();
  bench.run(200);
  CHECK(bench.state(ill) == "ready");
  CHECK(bench.stage.connects == 1);
  bench.correct({Bench::xy(6, 2), Bench::z(-7, -2)});
  CHECK(std::abs(bench.stage.place[axis] - found_nm) == Approx(2));
  CHECK(bench.stage.place[ill == 1 ? 0 : 2] == (ill == 1 ? kStart_nm + 6 : kStart_nm - 7));
}

TEST_CASE("what is wrong with axes of both groups, or with the controller, holds both", "[stage]") {
  Bench bench("xyz");
  SECTION("with axes of both") {
    bench.stage.ill = {{1, Condition::ServoOff, "y: off"}, {2, Condition::ServoOff, "z: off"}};
    bench.run(200);
    CHECK(standing(bench.all_boards[0].state(), 0).text == "y: off");
    CHECK(standing(bench.all_boards[1].state(), 0).text == "z: off");
    bench.stage.ill.pop_back();
    bench.run(200);
    CHECK(bench.state(0) == "servo_off");
    CHECK(bench.state(1) == "ready");
    bench.stage.ill = {{2, Condition::ServoOff, "z: off"}};
    bench.run(200);
    CHECK(bench.state(0) == "ready");
    CHECK(bench.state(1) == "servo_off");
  }
  SECTION("with the controller, beside an axis") {
    bench.stage.ill = {{2, Condition::ServoOff, "z: off"}};
    bench.stage.answer = {.condition = Condition::Error, .error = 3, .text = "too hot"};
    bench.run(100);  // until it was asked once
    CHECK(standing(bench.all_boards[0].state(), 0).text == "too hot");
    CHECK(standing(bench.all_boards[1].state(), 0).text == "too hot; z: off");
  }
  SECTION("all that was wrong is over at once: it is connected anew") {
    bench.stage.ill = {{0, Condition::ServoOff, "x: off"}, {2, Condition::ServoOff, "z: off"}};
    bench.run(200);
    bench.stage.ill.clear();
    bench.run(200);
    CHECK(bench.stage.connects == 2);
    CHECK(bench.state(0) == "ready");
    CHECK(bench.state(1) == "ready");
  }
}

TEST_CASE("which controller which axis is of decides what is driven together", "[stage]") {
  const auto parts = [](const std::string& axes, const std::string& x, const std::string& y,
                        const std::string& z) {
    const std::string text =
        "controller: {driver: program, command: a}\n"
        "second_controller: {driver: program, command: b}\n"
        "third_controller: {driver: program, command: c}\nmotion: {axes: " +
        axes + "}\nx: {controller: " + x + ", axis: X}\ny: {controller: " + y +
        ", axis: Y}\nz: {controller: " + z + ", axis: Z, min_nm: 0, max_nm: 100}\n";
    std::string told;
    const Config config = load_text(text, "f");
    for (const Config& part : parts_of(config))
      told += (told.empty() ? "" : " ") + letters_of(part.motion.axes);
    CHECK(make_parts(config).size() == parts_of(config).size());
    return told;
  };
  CHECK(parts("xy", "first", "first", "second") == "xy");
  CHECK(parts("xyz", "first", "first", "first") == "xyz");
  CHECK(parts("xyz", "first", "first", "second") == "xy z");
  CHECK(parts("xyz", "first", "second", "third") == "xy z");
  CHECK(parts("xyz", "first", "second", "second") == "xyz");
  CHECK(parts("xyz", "second", "second", "first") == "xy z");
  CHECK(parts("z", "first", "first", "first") == "z");
}

}  // namespace driftd::stage
