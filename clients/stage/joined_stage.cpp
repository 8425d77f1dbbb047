// SPDX-License-Identifier: MIT
#include "clients/stage/joined_stage.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "clients/stage/interface/faults.hpp"

namespace driftd::stage {

std::vector<Axis> JoinedStage::connect() {
  std::vector<Axis> axes;
  for (const auto& part : parts_) {
    const std::vector<Axis> own = part->connect();
    if (own.size() != 1)
      throw StageError(
          fmt::format("{} has {} axes; 1 was asked for", part->description(), own.size()));
    axes.push_back(own.front());
  }
  return axes;
}

std::string JoinedStage::description() const {
  return parts_[0]->description() + " and " + parts_[1]->description();
}

bool JoinedStage::prepare() {
  const bool x = parts_[0]->prepare();
  const bool y = parts_[1]->prepare();
  return x && y;
}

bool JoinedStage::move_to(std::span<const double> nm) {
  const bool x = parts_[0]->move_to(nm.first(1));
  if (clock_() > expires_ns_) throw TooLate();
  const bool y = parts_[1]->move_to(nm.last(1));
  return x && y;
}

void JoinedStage::read(std::span<double> nm) {
  parts_[0]->read(nm.first(1));
  parts_[1]->read(nm.last(1));
}

Health JoinedStage::health() {
  Health worst = parts_[0]->health();
  Health y = parts_[1]->health();
  const bool on_target = worst.on_target && y.on_target;
  const bool tells = worst.tells_on_target && y.tells_on_target;
  if (rank(y.condition) > rank(worst.condition)) std::swap(worst, y);
  if (y.condition != Condition::Ready && !y.text.empty())
    worst.text += (worst.text.empty() ? "" : "; ") + y.text;
  if (worst.error == 0) worst.error = y.error;
  worst.on_target = on_target;
  worst.tells_on_target = tells;
  return worst;
}

}  // namespace driftd::stage
