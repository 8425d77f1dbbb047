// SPDX-License-Identifier: MIT
// Which driver makes which Stage.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "clients/stage/backends/simulator.hpp"
#include "clients/stage/stage.hpp"

namespace driftd::stage {
namespace {

struct Maker {
  std::string_view driver;
  std::unique_ptr<Stage> (*make)(const StageOptions&);
};

constexpr auto kMakers = std::to_array<Maker>({
    {"simulator", make_simulator},
});

}  // namespace

std::unique_ptr<Stage> make_stage(const StageOptions& options) {
  const auto* const maker = std::ranges::find(kMakers, options.driver, &Maker::driver);
  if (maker == kMakers.end())
    throw std::invalid_argument(fmt::format("there is no driver \"{}\"", options.driver));
  return maker->make(options);
}

}  // namespace driftd::stage
