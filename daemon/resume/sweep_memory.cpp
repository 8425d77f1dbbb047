// SPDX-License-Identifier: MIT
#include "daemon/resume/sweep_memory.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/resume/lock_saver.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;
using Level = EventLog::Level;

constexpr Seal kSweepSeal{"driftd-axial-sweep", "a calibration of z"};

std::filesystem::path sweep_file(const config::Config& config) {
  return state_file(config, "sweep");
}

}  // namespace

std::string to_text(const SavedSweep& saved) {
  json body = to_json(saved.time);
  body["total_nm"] = saved.total_nm;
  body["driver"] = saved.driver;
  if (saved.start_nm) body["start_nm"] = *saved.start_nm;
  return sealed_json(body, kSweepSeal);
}

SavedSweep read_saved_sweep(const std::string& text) {
  return read_sealed(text, kSweepSeal, [](const json& body) {
    SavedSweep saved{.time = saved_time_of(body),
                     .total_nm = body.at("total_nm").get<double>(),
                     .start_nm = std::nullopt,
                     .driver = body.at("driver").get<std::string>()};
    if (body.contains("start_nm")) saved.start_nm = body.at("start_nm").get<double>();
    return saved;
  });
}

void SweepMemory::recall() {
  const std::filesystem::path file = sweep_file(config_);
  if (config_.axial.method == control::AxialMethod::None || file.empty()) return;
  owner_.emplace(file);
  if (!owner_->is_ours()) return;  // as of the lock's file, of which it is told
  writer_.emplace(file);
  try {
    if (const auto text = read_state(file)) left_ = read_saved_sweep(*text);
  } catch (const std::exception& error) {
    events_.raise(Level::Warning, "state_ignored",
                  fmt::format("what is kept of a calibration of z that was interrupted, in {}, is "
                              "ignored: {}",
                              file.string(), error.what()));
  }
  if (left_) tell();
}

void SweepMemory::tell() const {
  events_.raise(Level::Warning, "calibration", text(), {{"axes", "z"}, {"phase", "interrupted"}});
}

void SweepMemory::turn(std::int64_t now_ns) {
  if (!writer_) return;
  const LockReport& z = loop_.report().z;
  const bool is_moved = z.lock.state == control::LockState::Calibrating;
  if (is_moved) keep(now_ns);
  const bool was_moved = under_way_ && !is_moved;
  if (was_moved) under_way_.reset();
  const bool is_over = left_ && (is_moved || z.holds());
  if (is_over) left_.reset();
  if (was_moved || (is_over && !is_moved)) writer_->remove();
  if (left_ && left_->start_nm && stage_.axial_travel() && !std::exchange(told_place_, true))
    tell();
}

void SweepMemory::keep(std::int64_t now_ns) {
  const double total_nm = loop_.report().z.total_nm.x;
  const bool begins = !under_way_;
  if (begins) {
    under_way_.emplace();
    if (const auto travel = stage_.axial_travel()) {
      under_way_->start_nm = travel->position_nm;
      under_way_->driver = stage_.report()->driver;
    }
  }
  const bool is_due =
      std::abs(total_nm - under_way_->total_nm) > kMovedNm && now_ns - written_ns_ >= kSoonestNs;
  if (!begins && !is_due) return;
  under_way_->total_nm = total_nm;
  under_way_->time = SavedTime::now();
  writer_->write(to_text(*under_way_));
  written_ns_ = now_ns;
}

std::string SweepMemory::text() const {
  if (!left_) return {};
  const auto age = seconds_between(left_->time, SavedTime::now());
  std::string told = fmt::format(
      "the end of driftd interrupted a calibration of z{}: its stage was told last to be some "
      "{:+.0f} nm from where it began, and is not moved back",
      age ? fmt::format(" {} ago", duration_text(*age)) : "", left_->total_nm);
  if (!left_->start_nm) return told;
  told += fmt::format("; the beginning was at {:.1f} nm on its own axis (driver {})",
                      *left_->start_nm, left_->driver);
  if (const auto now = stage_.axial_travel())
    told += fmt::format(", it is at {:.1f} nm now", now->position_nm);
  return told;
}

}  // namespace driftd::daemon
