// SPDX-License-Identifier: MIT
#include "clients/web/history.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "clients/web/messages.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;

constexpr std::array kNames = {"drift_nm", "residual_nm", "correction_nm"};
constexpr std::array kNamesOfZ = {"z_nm", "correction_z_nm"};

/// fmin() and fmax() take the other one where one is NaN.
void extend(double& least, double& most, double value) {
  least = std::fmin(least, value);
  most = std::fmax(most, value);
}

}  // namespace

History::Bin History::empty_bin() {
  Bin bin;
  bin.least.fill(kUnknown);
  bin.most.fill(kUnknown);
  bin.least_z.fill(kUnknown[0]);
  bin.most_z.fill(kUnknown[0]);
  return bin;
}

void History::add(const Sample& sample) {
  if (!std::isfinite(sample.t_s) || sample.t_s < 0 || sample.t_s > 1e12) return;
  const auto number = static_cast<std::int64_t>(std::floor(sample.t_s / kStepS));
  if (!bins_.empty() && number < next() - 1) {  // another clock
    bins_.clear();
    anew_ = true;
  }
  if (bins_.empty() || number >= next() + kBins) {
    bins_.clear();
    first_ = told_until_ = number;
  }
  while (next() <= number) bins_.push_back(empty_bin());
  while (static_cast<std::int64_t>(bins_.size()) > kBins + 1) {
    bins_.pop_front();
    ++first_;
  }
  Bin& bin = bins_.back();
  ++bin.frames;
  if (sample.in_lock) ++bin.in_lock;
  const std::array<double, kCurvesOfZ> values_of_z = {sample.z_nm, sample.correction_z_nm};
  const std::array<Pair, kCurves> values = {sample.drift_nm, sample.residual_nm,
                                            sample.correction_nm};
  for (std::size_t curve = 0; curve < kCurves; ++curve) {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      extend(bin.least[curve][axis], bin.most[curve][axis], values[curve][axis]);
    }
  }
  for (std::size_t curve = 0; curve < kCurvesOfZ; ++curve)
    extend(bin.least_z[curve], bin.most_z[curve], values_of_z[curve]);
}

json History::from(std::int64_t bin, std::int64_t count) const {
  json least, most;
  for (const char* name : kNames) {
    least[name] = json::array({json::array(), json::array()});
    most[name] = least[name];
  }
  json in_lock = json::array();
  const std::int64_t over = bins_.empty() ? first_ : next() - 1;
  const std::int64_t begin = std::clamp(bin, first_, over);
  for (std::int64_t i = begin; i < std::min(over, begin + count); ++i) {
    const Bin& here = bins_[static_cast<std::size_t>(i - first_)];
    for (std::size_t curve = 0; curve < kCurves; ++curve) {
      for (std::size_t axis = 0; axis < 2; ++axis) {
        least[kNames[curve]][axis].push_back(number_or_null(here.least[curve][axis]));
        most[kNames[curve]][axis].push_back(number_or_null(here.most[curve][axis]));
      }
    }
    in_lock.push_back(here.frames == 0 ? json()
                                       : number_or_null(static_cast<double>(here.in_lock) /
                                                        static_cast<double>(here.frames)));
  }
  for (std::size_t curve = 0; curve < kCurvesOfZ; ++curve) {
    json low = json::array(), high = json::array();
    bool known = false;
    for (std::int64_t i = begin; i < std::min(over, begin + count); ++i) {
      const Bin& here = bins_[static_cast<std::size_t>(i - first_)];
      known = known || std::isfinite(here.least_z[curve]);
      low.push_back(number_or_null(here.least_z[curve]));
      high.push_back(number_or_null(here.most_z[curve]));
    }
    if (!known) continue;
    least[kNamesOfZ[curve]] = std::move(low);
    most[kNamesOfZ[curve]] = std::move(high);
  }
  return {{"kind", "history"}, {"span_s", static_cast<double>(kBins) * kStepS},
          {"step_s", kStepS},  {"t0_s", static_cast<double>(begin) * kStepS},
          {"min", least},      {"max", most},
          {"in_lock", in_lock}};
}

json History::whole() const {
  return from(first_);
}

std::vector<json> History::parts() const {
  constexpr std::int64_t kPart = 90;
  std::vector<json> all = {from(first_, kPart)};
  for (std::int64_t bin = first_ + kPart; bin < next() - 1; bin += kPart) {
    all.push_back(from(bin, kPart));
    all.back()["append"] = true;
  }
  return all;
}

std::optional<json> History::news() {
  if (anew_) {
    anew_ = false;
    told_until_ = bins_.empty() ? first_ : next() - 1;
    return whole();
  }
  if (bins_.empty() || next() - 1 <= told_until_) return std::nullopt;
  json message = from(told_until_);
  message["append"] = true;
  told_until_ = next() - 1;
  return message;
}

}  // namespace driftd::web
