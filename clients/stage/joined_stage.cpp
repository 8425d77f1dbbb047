// SPDX-License-Identifier: MIT
#include "clients/stage/joined_stage.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <utility>

#include "clients/stage/interface/faults.hpp"

namespace driftd::stage {

std::vector<Axis> JoinedStage::connect() {
  std::vector<Axis> axes(letters_.size());
  for (const Part& part : parts_) {
    std::vector<Axis> own = part.stage->connect();
    if (own.size() != part.letters.size())
      throw StageError(fmt::format("{} has {} axes; {} {} asked for", part.stage->description(),
                                   own.size(), part.letters.size(),
                                   part.letters.size() == 1 ? "was" : "were"));
    for (std::size_t i = 0; i < own.size(); ++i)
      axes[letters_.find(part.letters[i])] = std::move(own[i]);
  }
  return axes;
}

std::string JoinedStage::description() const {
  std::string text;
  for (const Part& part : parts_) text += (text.empty() ? "" : " and ") + part.stage->description();
  return text;
}

bool JoinedStage::prepare() {
  bool taken = true;
  for (const Part& part : parts_) taken = part.stage->prepare() && taken;
  return taken;
}

bool JoinedStage::move_to(std::span<const double> nm) {
  bool taken = true;
  const Part* last = nullptr;
  for (const Part& part : parts_) {
    std::array<double, kMostAxes> own{};
    for (std::size_t i = 0; i < part.letters.size(); ++i)
      own[i] = nm[letters_.find(part.letters[i])];
    const std::span<const double> targets(own.data(), part.letters.size());
    if (std::ranges::all_of(targets, stays)) continue;
    if (last != nullptr && clock_() > expires_ns_)
      throw TooLate(fmt::format(
          "the controller of {} takes longer than a correction lives, and {} is not told",
          last->letters, part.letters));
    taken = part.stage->move_to(targets) && taken;
    last = &part;
  }
  return taken;
}

void JoinedStage::read(std::span<double> nm) {
  for (const Part& part : parts_) {
    std::array<double, kMostAxes> own{};
    part.stage->read(std::span(own.data(), part.letters.size()));
    for (std::size_t i = 0; i < part.letters.size(); ++i)
      nm[letters_.find(part.letters[i])] = own[i];
  }
}

/// What is wrong is told with the axes that it is wrong with. Servos and references are each
/// axis's, all else is the group's that was told to go: it may be a refusal.
Health JoinedStage::health_of(const Part& part) const {
  Health health = part.stage->health();
  const auto named = [&](const std::string& text) {
    return text.empty() ? text : fmt::format("{}: {}", part.letters, text);
  };
  std::vector<AxisFault> faults;
  bool are_own = true;
  for (std::size_t i = 0; i < part.letters.size(); ++i) {
    const Health own = health_part(health, i, 1);
    if (own.condition == Condition::Ready) continue;
    are_own = are_own && rank(own.condition) >= rank(Condition::ServoOff);
    faults.push_back({letters_.find(part.letters[i]), own.condition, named(own.text), own.error});
  }
  if (!are_own) faults.clear();
  health.of_axes = std::move(faults);
  health.common = {};
  health.hint.clear();  // the texts have it
  health.text = named(health.text);
  return health;
}

Health JoinedStage::health() {
  Health worst = health_of(parts_.front());
  const auto is_told = [](const Health& health) {
    return health.condition == Condition::Ready || !health.of_axes.empty();
  };
  bool all_told = is_told(worst);
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    Health other = health_of(parts_[i]);
    all_told = all_told && is_told(other);
    const bool on_target = worst.on_target && other.on_target;
    const bool tells = worst.tells_on_target && other.tells_on_target;
    if (rank(other.condition) > rank(worst.condition)) std::swap(worst, other);
    if (other.condition != Condition::Ready && !other.text.empty())
      worst.text += (worst.text.empty() ? "" : "; ") + other.text;
    if (worst.error == 0) worst.error = other.error;
    worst.of_axes.insert(worst.of_axes.end(), other.of_axes.begin(), other.of_axes.end());
    worst.on_target = on_target;
    worst.tells_on_target = tells;
  }
  if (!all_told) worst.of_axes.clear();
  return worst;
}

}  // namespace driftd::stage
