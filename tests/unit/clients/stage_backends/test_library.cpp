// SPDX-License-Identifier: MIT
// The loader with libraries built for this test. They prove the loader and our use of the
// functions, not that a vendor's library behaves so.
#include <dlfcn.h>

#include <array>

#include "clients/stage/interface/stage.hpp"
#include "support/catch.hpp"

using namespace driftd::stage;

namespace {

StageOptions options(const char* library, std::vector<std::string> axes = {"X", "Y"}) {
  StageOptions options;
  options.driver = "library";
  options.library = library;
  options.axes = std::move(axes);
  return options;
}

/// The test's own hold on the same loaded library.
class Fake {
 public:
  Fake() { call<void()>("fake_reset")(); }
  ~Fake() { ::dlclose(handle_); }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;

  template <typename Function>
  Function* call(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  std::string calls() const { return call<const char*()>("fake_calls")(); }

 private:
  void* handle_ = ::dlopen(DRIFTD_FAKE_MADLIB, RTLD_NOW);
};

}  // namespace

TEST_CASE("Mad City Labs: the first controller, its ranges and its resolution") {
  const Fake fake;
  {
    const auto stage = make_stage(options(DRIFTD_FAKE_MADLIB));
    const std::vector<Axis> axes = stage->connect();
    REQUIRE(axes.size() == 2);
    CHECK(axes[0].max_nm == 100'000);
    CHECK(axes[1].max_nm == 200'000);
    CHECK(axes[0].resolution_nm == Approx(0.09537).epsilon(1e-3));  // 100 um in 20 bits
    CHECK(stage->description() == "Mad City Labs product 8193, serial number 2001, firmware 5");
    CHECK(stage->move_to(std::array{50'123.0, 60'000.0}));
    std::array<double, 2> place{};
    stage->read(place);
    CHECK(place[0] == Approx(50'123.0));
    CHECK(stage->health().condition == Condition::Ready);
  }
  // Connecting and ending move nothing.
  CHECK(fake.calls() == "init 1=50123 2=60000 release1 ");
}

TEST_CASE("Mad City Labs: an axis that stays is not written") {
  const Fake fake;
  {
    const auto stage = make_stage(options(DRIFTD_FAKE_MADLIB));
    stage->connect();
    CHECK(stage->move_to(std::array{kStays, 60'000.0}));
    CHECK_FALSE(stage->move_to(std::array{kStays, kStays}));
  }
  CHECK(fake.calls() == "init 2=60000 release1 ");
}

TEST_CASE("Mad City Labs: the controller of a serial number, the others are released") {
  const Fake fake;
  StageOptions second = options(DRIFTD_FAKE_MADLIB);
  second.device = "2002";
  const auto stage = make_stage(second);
  stage->connect();
  CHECK(stage->description() == "Mad City Labs product 8193, serial number 2002, firmware 5");
  CHECK(fake.calls() == "release1 ");
  stage->connect();  // gives back what it held first
  CHECK(fake.calls() == "release1 release2 release1 ");
  second.device = "7";
  CHECK_THROWS_WITH(make_stage(second)->connect(),
                    contains("found controllers 2001 2002, expected serial number 7"));
}

TEST_CASE("Mad City Labs: two names of one axis, and a serial number that is none, are refused") {
  const Fake fake;
  StageOptions twice = options(DRIFTD_FAKE_MADLIB);
  twice.axes = {"X", "1"};
  CHECK_THROWS_WITH(make_stage(twice)->connect(), contains("axes 'X' and '1' are one axis"));
  StageOptions huge = options(DRIFTD_FAKE_MADLIB);
  huge.device = "1e300";
  CHECK_THROWS_WITH(make_stage(huge)->connect(), contains("'1e300' is no serial number"));
}

TEST_CASE("Mad City Labs: a place that is a negative whole number is an error code") {
  const Fake fake;
  const auto stage = make_stage(options(DRIFTD_FAKE_MADLIB));
  stage->connect();
  std::array<double, 2> place{};
  fake.call<void(double)>("fake_read_value")(-0.0031);  // noise at the end of the range
  stage->read(place);
  CHECK(place[0] == Approx(-3.1));
  fake.call<void(double)>("fake_read_value")(-1.5);
  stage->read(place);
  CHECK(place[0] == Approx(-1500.0));
  fake.call<void(double)>("fake_read_value")(-3);
  CHECK_THROWS_WITH(stage->read(place), contains("MCL error -3: the controller is not attached"));
}

TEST_CASE("Mad City Labs: refused moves, a controller pulled and a target beyond the range") {
  const Fake fake;
  const auto stage = make_stage(options(DRIFTD_FAKE_MADLIB));
  stage->connect();
  const auto write_code = fake.call<void(int)>("fake_write_code");
  write_code(-6);
  CHECK_FALSE(stage->move_to(std::array{1.0, 1.0}));
  const Health refused = stage->health();
  CHECK(refused.condition == Condition::Limit);
  CHECK(refused.error == -6);
  CHECK(refused.text == "axis X: move refused, MCL error -6: argument error");
  write_code(-5);
  CHECK_FALSE(stage->move_to(std::array{1.0, 1.0}));
  CHECK(stage->health().condition == Condition::Error);
  write_code(-3);
  CHECK_THROWS_WITH(stage->move_to(std::array{1.0, 1.0}), contains("not attached"));
  write_code(0);
  CHECK_FALSE(stage->move_to(std::array{1.0, 200'001.0}));
  CHECK(stage->health().condition == Condition::Limit);
  fake.call<void(bool)>("fake_attached")(false);
  CHECK(stage->health().condition == Condition::Disconnected);
  CHECK(fake.calls() == "init ");
}

TEST_CASE("a library that offers our own functions") {
  const auto stage = make_stage(options(DRIFTD_FAKE_PLAIN_LIBRARY, {"left", "right"}));
  const std::vector<Axis> axes = stage->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].name == "left");
  CHECK(axes[1].min_nm == -2000);
  CHECK(stage->description() == "fake stage, 2 axes");
  CHECK(stage->move_to(std::array{12.5, -3.0}));
  std::array<double, 2> place{};
  stage->read(place);
  CHECK(place[1] == -3.0);
  CHECK(stage->health().on_target);
  CHECK_FALSE(stage->move_to(std::array{1001.0, 0.0}));
  CHECK(stage->health().text == "move refused, 7: beyond the end");
  CHECK(stage->move_to(std::array{-600.0, 0.0}));
  const Health off = stage->health();
  CHECK(off.condition == Condition::ServoOff);
  CHECK(off.text == "5: the servo is off");
  CHECK(stage->move_to(std::array{-950.0, 0.0}));
  CHECK_THROWS_WITH(stage->read(place),
                    contains("driftd_stage_read() failed, error 9: something else"));
  StageOptions absent = options(DRIFTD_FAKE_PLAIN_LIBRARY);
  absent.device = "absent";
  CHECK_THROWS_WITH(make_stage(absent)->connect(), contains("error 3: no such device"));
}

TEST_CASE("a file that is none, another library, and axes that a library has not") {
  CHECK_THROWS_WITH(make_stage(options("/nowhere/libmadlib.so"))->connect(),
                    contains("library /nowhere/libmadlib.so: cannot be loaded (/nowhere"));
  CHECK_THROWS_WITH(make_stage(options(DRIFTD_OTHER_LIBRARY))->connect(),
                    contains("has neither driftd_stage_open nor MCL_SingleWriteN"));
  CHECK_THROWS_WITH(make_stage(options(DRIFTD_FAKE_MADLIB, {"Q"}))->connect(),
                    contains("axis 'Q' is no Mad City Labs axis"));
  CHECK_THROWS_WITH(make_stage(options(DRIFTD_FAKE_MADLIB, {"Z"}))->connect(),
                    contains("found axes 3 (bits), expected axis Z among them"));
  std::array<double, 2> place{};
  CHECK_THROWS_WITH(make_stage(options(DRIFTD_FAKE_MADLIB))->read(place),
                    contains("not connected"));
}
