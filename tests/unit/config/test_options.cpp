// SPDX-License-Identifier: MIT
#include <algorithm>
#include <regex>
#include <set>

#include "config/checks.hpp"
#include "config/options.hpp"
#include "random_config.hpp"
#include "support/catch.hpp"

namespace driftd::config {
namespace {

/// Stands for a field of any type in a braced list that is never evaluated.
struct AnyField {
  template <typename Field>
  operator Field() const;
};

/// How many fields an aggregate has.
template <typename Aggregate, typename... Fields>
consteval std::size_t field_count() {
  if constexpr (requires { Aggregate{Fields{}..., AnyField{}}; }) {
    return field_count<Aggregate, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

/// Names and values pair up one to one; `last` is the enumeration's last value.
template <typename Enum>
bool names_are_complete(Enum last) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    const auto value = static_cast<Enum>(i);
    const auto found = std::ranges::find(kNames<Enum>, value, &Named<Enum>::value);
    if (found == kNames<Enum>.end() || !names.insert(text_of(value)).second) return false;
    if (value_named<Enum>(text_of(value)) != value) return false;
  }
  return names.size() == kNames<Enum>.size() && !value_named<Enum>("no such name");
}

std::size_t options_in(std::string_view section) {
  return static_cast<std::size_t>(std::ranges::count(options(), section, &Option::section));
}

}  // namespace

TEST_CASE("every field of every struct has a row in the option table", "[config]") {
  STATIC_REQUIRE(field_count<ListedMarker>() == 4);       // the counting itself works
  CHECK(sections().size() + 1 == field_count<Config>());  // Settings, its base, counts as one
  CHECK(options_in("camera") == field_count<Camera>());
  CHECK(options_in("replay") == field_count<Replay>());
  CHECK(options_in("optics") == field_count<Optics>());
  CHECK(options_in("fitter") == field_count<Fitter>());
  CHECK(options_in("fitter.cuda") == field_count<Cuda>());
  CHECK(options_in("markers") == field_count<Markers>());
  CHECK(options_in("drift") == field_count<Drift>());
  CHECK(options_in("lock") == field_count<Lock>());
  CHECK(options_in("control") == field_count<Control>());
  CHECK(options_in("stage") == field_count<Stage>());
  CHECK(options_in("realtime") == field_count<RealTime>());
  CHECK(options_in("wire") == field_count<Wire>());
  CHECK(options_in("record") == field_count<Record>());
  CHECK(options_in("log") == field_count<Log>());
  CHECK(options_in("hook") == field_count<Hook>());
  CHECK(marker_keys().size() == field_count<ListedMarker>());
}

TEST_CASE("every value of an enumeration has a name of its own", "[config]") {
  CHECK(names_are_complete(Source::Replay));
  CHECK(names_are_complete(camera::PixelFormat::Mono16));
  CHECK(names_are_complete(camera::Trigger::Software));
  CHECK(names_are_complete(camera::Resend::Never));
  CHECK(names_are_complete(camera::ReplayFormat::RawU16));
  CHECK(names_are_complete(camera::ReplayPace::Fast));
  CHECK(names_are_complete(camera::ReplayEnd::Loop));
  CHECK(names_are_complete(Backend::Cuda));
  CHECK(names_are_complete(Estimator::Poisson));
  CHECK(names_are_complete(fitter::CudaMode::Resident));
  CHECK(names_are_complete(MarkerMode::List));
  CHECK(names_are_complete(control::MarkerRole::Witness));
  CHECK(names_are_complete(RealTimeMode::Off));
  CHECK(names_are_complete(LogLevel::Error));
  CHECK(names_are_complete(EventLevel::Error));
  CHECK(names_are_complete(RawFramesAt::Holding));
}

TEST_CASE("what the file names is what the configuration holds", "[config]") {
  const Config config = load_text(
      "camera: {source: replay, trigger: hardware, resend: never, pixel_format: Mono10p}\n"
      "replay: {path: x, format: raw_u8, width_px: 64, height_px: 48, pace: fast, on_end: loop}\n"
      "fitter: {backend: cpu, estimator: least_squares, cuda: {mode: launch}}\n"
      "realtime: {mode: 'off'}\nlog: {level: warning}\n",
      "f");
  CHECK(config.camera.source == Source::Replay);
  CHECK(config.camera.trigger == camera::Trigger::HardwareLine);
  CHECK(config.camera.resend == camera::Resend::Never);
  CHECK(config.camera.pixel_format == camera::PixelFormat::Mono10p);
  CHECK(config.replay.format == camera::ReplayFormat::RawU8);
  CHECK(config.replay.pace == camera::ReplayPace::Fast);
  CHECK(config.replay.on_end == camera::ReplayEnd::Loop);
  CHECK(config.fitter.backend == Backend::Cpu);
  CHECK(config.fitter.estimator == Estimator::LeastSquares);
  CHECK(config.cuda.mode == fitter::CudaMode::Launch);
  CHECK(config.realtime.mode == RealTimeMode::Off);
  CHECK(config.log.level == LogLevel::Warning);
}

TEST_CASE("every row names the field that it reads and writes", "[config]") {
  // Member names are gone after compilation: compared in the source.
  const std::regex row(R"(row<&Config::(\w+), &\w+::(\w+)>\(\s*"(?:(\w+)\.)?(\w+)\.(\w+)\")");
  std::size_t rows = 0;
  for (const char* file : {"source", "tracking", "lock", "service"}) {
    const std::string text = test::project_file("config/options_" + std::string(file) + ".cpp");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), row);
         at != std::sregex_iterator(); ++at) {
      const std::string within = (*at)[3].str(), section = (*at)[4].str(), field = (*at)[1].str();
      CHECK((field == section || field == within + "_" + section));
      CHECK((*at)[2] == (*at)[5]);
      ++rows;
    }
  }
  CHECK(rows == options().size());
}

TEST_CASE("the rows are in order, complete and their defaults allowed", "[config]") {
  std::set<std::string_view> keys;
  std::size_t section = 0;
  for (const Option& option : options()) {
    INFO(option.key);
    CHECK(keys.insert(option.key).second);
    while (section < sections().size() && sections()[section].name != option.section()) ++section;
    REQUIRE(section < sections().size());  // grouped as sections() orders them
    const Rules& rules = option.rules;
    CHECK(rules.text.ends_with('.'));
    if (const int* whole = std::get_if<int>(&option.fallback)) {
      CHECK((yaml::in_range(*whole, rules.range()) || (rules.or_auto && *whole == 0)));
      CHECK(rules.max <= 2147483647);  // fits an int
      CHECK(rules.min >= -2147483648.0);
    }
    if (const double* real = std::get_if<double>(&option.fallback)) {
      CHECK((yaml::in_range(*real, rules.range()) || (rules.or_auto && *real == 0)));
      CHECK(rules.max < 1e10);  // finite: every number has a range
      CHECK(rules.min > -1e10);
    }
    if (const auto* text = std::get_if<std::string>(&option.fallback)) {
      const bool known =
          rules.choices.empty() || std::ranges::find(rules.choices, *text) != rules.choices.end();
      CHECK(known);
    }
    CHECK(find_option(option.key) == &option);
  }
  CHECK(find_option("camera.no_such_key") == nullptr);
}

TEST_CASE("the unit of an option is the end of its name", "[config]") {
  for (const Option& option : options()) {
    INFO(option.key);
    const std::string_view unit = option.rules.unit;
    std::string ending = unit == "nm/s"     ? "_nm_per_s"
                         : unit == "nm/px"  ? ".nm_per_px"
                         : unit == "e-/ADU" ? "_e_per_adu"
                         : unit == "e-"     ? "_e"
                                            : '_' + std::string(unit);
    std::ranges::transform(ending, ending.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool named = unit.empty() || option.key.ends_with(ending);
    CHECK(named);
  }
}

TEST_CASE("setting an option changes that option and no other", "[config]") {
  test::Random random(3);
  for (const Option& option : options()) {
    INFO(option.key);
    const Config before = default_config();
    Config after = before;
    Value value = option.fallback;
    while (value == option.fallback) value = test::random_value(option, random);
    option.set(after, value);
    CHECK(test::differences(before, after) == std::vector{std::string(option.key)});
    const bool arrived = option.get(after) == value;
    CHECK(arrived);
  }
}

TEST_CASE("the defaults make sense together", "[config]") {
  CHECK(find_conflicts(default_config()).empty());
}

TEST_CASE("a reload may change what the table says, and only that", "[config]") {
  test::Random random(4);
  for (const Option& option : options()) {
    INFO(option.key);
    Config after = default_config();
    Value value = option.fallback;
    while (value == option.fallback) value = test::random_value(option, random);
    option.set(after, value);
    const std::vector<std::string> none;
    const std::vector<std::string> this_one{std::string(option.key)};
    const Reload reload = option.rules.reload;
    CHECK(not_reloadable_changes(default_config(), after, false) ==
          (reload == Reload::Live ? none : this_one));
    CHECK(not_reloadable_changes(default_config(), after, true) ==
          (reload == Reload::Restart ? this_one : none));
  }
  // What must never change under a running lock, whatever the table says.
  for (const char* key :
       {"camera.id", "optics.pixel_size_nm", "fitter.roi_px", "wire.publish", "markers.list"}) {
    INFO(key);
    REQUIRE(find_option(key) != nullptr);
    CHECK(find_option(key)->rules.reload == Reload::Restart);
  }
  CHECK(find_option("control.integral")->rules.reload == Reload::Live);
  CHECK(find_option("stage.image_to_stage")->rules.reload == Reload::Idle);
}

}  // namespace driftd::config
