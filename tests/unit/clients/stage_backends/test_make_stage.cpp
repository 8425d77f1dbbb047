// SPDX-License-Identifier: MIT
#include "clients/stage/interface/stage.hpp"
#include "support/catch.hpp"

using namespace driftd::stage;

namespace {

StageOptions options(const std::string& driver, std::vector<std::string> axes) {
  StageOptions options;
  options.driver = driver;
  options.device = "/dev/driftd-none";
  options.axes = std::move(axes);
  options.library = "/driftd/none.so";
  return options;
}

}  // namespace

TEST_CASE("every driver is made without opening anything, and fails where it connects") {
  const auto [driver, axis] = GENERATE(table<std::string, std::string>({{"pi_gcs2", "1"},
                                                                        {"lc400", "1"},
                                                                        {"asi", "X"},
                                                                        {"piezoconcept", "X"},
                                                                        {"thorlabs_apt", "bay1"},
                                                                        {"library", "X"}}));
  INFO(driver);
  const auto stage = make_stage(options(driver, {axis}));
  CHECK(stage->description().empty());
  CHECK_THROWS_WITH(stage->connect(), contains("none"));
  CHECK_THROWS_AS(stage->health(), StageError);
  CHECK_THROWS_AS(stage->move_to(std::vector<double>{}), StageError);
}

TEST_CASE("options that a driver cannot use are refused before anything is opened") {
  const auto refused = [](StageOptions given) {
    std::string text;
    try {
      make_stage(given);
    } catch (const std::invalid_argument& error) {
      text = error.what();
    }
    return text;
  };
  CHECK_THAT(refused(options("e727", {"1"})),
             contains("driver 'e727' is not known, expected one of pi_gcs2, lc400"));
  CHECK_THAT(refused(options("asi", {})), contains("names 0 axes, expected 1 to 3"));
  CHECK_THAT(refused(options("asi", {"X", ""})), contains("an axis has no name"));
  CHECK_THAT(refused(options("asi", {"x"})), contains("is no ASI axis"));
  CHECK_THAT(refused(options("lc400", {"7"})), contains("is no LC.400 channel, expected 1 to 6"));
  CHECK_THAT(refused(options("piezoconcept", {"1"})), contains("none of Piezoconcept's"));
  CHECK_THAT(refused(options("pi_gcs2", {"1 2"})), contains("is no PI axis"));
  CHECK_THAT(refused(options("thorlabs_apt", {"bay11"})), contains("is no Thorlabs channel"));
  CHECK_THAT(refused(options("thorlabs_apt", {"1.5"})), contains("is no Thorlabs channel"));
  StageOptions given = options("thorlabs_apt", {"1", "1", "1"});
  given.device = "/dev/a,/dev/b";
  CHECK_THAT(refused(given), contains("names 2 lines for 3 axes"));
  given = options("library", {"X"});
  given.library = "libmadlib.so";
  CHECK_THAT(refused(given), contains("is not the whole path of a file"));
  given = options("pi_gcs2", {"1"});
  given.device = "192.168.0.7:50000";
  CHECK_THAT(refused(given), contains("neither tcp://HOST:PORT nor the path"));
  given.device = "/dev/ttyUSB0";
  given.timeout_ms = 0;
  CHECK_THAT(refused(given), contains("timeout_ms is 0"));
}
