// SPDX-License-Identifier: MIT
#include "daemon/resume/sweep_memory.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/resume/lock_saver.hpp"
#include "daemon/resume/sealed_json.hpp"

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
  if (config_.axial.method == control::AxialMethod::None) return;
  const std::filesystem::path file = sweep_file(config_);
  if (file.empty()) {
    keeps_nothing_ = "there is no state directory";
    return;
  }
  owner_.emplace(file);
  if (!owner_->is_ours()) {  // as of the lock's file, of which it is told
    keeps_nothing_ = fmt::format("{} is in use by {}", file.string(), owner_->other());
    return;
  }
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
  const std::string waits = cure();
  events_.raise(Level::Warning, "calibration", left_text() + (waits.empty() ? "" : ". " + waits),
                {{"axes", "z"}, {"phase", "interrupted"}});
}

void SweepMemory::expect(std::int64_t now_ns) {
  if (!writer_) return;
  expected_ns_ = now_ns + kExpectedNs;
  begin();
  write(now_ns);
}

void SweepMemory::unexpect() {
  if (!writer_ || !under_way_) return;
  tell_problem();  // which is over with the file
  end();
}

void SweepMemory::turn(std::int64_t now_ns) {
  if (!writer_) return;
  tell_problem();
  const LockReport& z = loop_.report().z;
  if (z.lock.state == control::LockState::Calibrating) {
    expected_ns_ = 0;
    keep(now_ns);
  } else if (under_way_ && now_ns >= expected_ns_) {
    end();
  }
  if (!left_ || under_way_) return;
  if (z.holds() || is_back()) {
    left_.reset();
    writer_->remove();
  } else if (left_->start_nm && stage_.axial_travel() && !std::exchange(told_place_, true)) {
    tell();
  }
}

/// From where the stage is; beside one that was left, its beginning stays.
void SweepMemory::begin() {
  if (left_) {
    under_way_ = left_;
    before_nm_ = total_nm_ = left_->total_nm;
    return;
  }
  before_nm_ = total_nm_ = 0;
  under_way_.emplace();
  if (const auto travel = stage_.axial_travel()) {
    under_way_->start_nm = travel->position_nm;
    under_way_->driver = stage_.report()->driver;
  }
}

void SweepMemory::keep(std::int64_t now_ns) {
  const bool begins = !under_way_;
  if (begins) begin();
  total_nm_ = before_nm_ + loop_.report().z.total_nm.x;
  const bool is_due =
      std::abs(total_nm_ - under_way_->total_nm) > kMovedNm && now_ns - written_ns_ >= kSoonestNs;
  if (!begins && !is_due) return;
  under_way_->total_nm = total_nm_;
  write(now_ns);
}

void SweepMemory::write(std::int64_t now_ns) {
  under_way_->time = SavedTime::now();
  writer_->write(to_text(*under_way_));
  written_ns_ = now_ns;
}

/// The stage went back to where it was at the beginning, or was left by command, which is told.
void SweepMemory::end() {
  under_way_.reset();
  expected_ns_ = 0;
  if (!left_) return writer_->remove();
  left_->total_nm = total_nm_;
  writer_->write(to_text(*left_));
}

/// As far as its driver says.
bool SweepMemory::is_back() const {
  const auto now = stage_.axial_travel();
  return left_->start_nm && now && stage_.report()->driver == left_->driver &&
         now->is_at(*left_->start_nm);
}

std::string SweepMemory::left_text() const {
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

std::string SweepMemory::text() {
  const std::string why = problem();
  std::string unwritten =
      why.empty() ? "" : "where a calibration of z began cannot be kept: " + why;
  if (!left_) return unwritten;
  return left_text() + (why.empty() ? "" : "; " + unwritten);
}

std::string SweepMemory::cure() const {
  if (!left_ || !config_.lock.at_start || !config_.axial.hold) return {};
  // Another driver's axis has other numbers.
  const auto& report = stage_.report();
  const bool is_told = left_->start_nm && (!report || report->driver == left_->driver);
  const std::string place =
      is_told ? fmt::format(", to {:.1f} nm on its own axis", *left_->start_nm) : "";
  return fmt::format(
      "lock.at_start does not lock z where an interrupted calibration left its stage: take that "
      "back by its controller{}{}; `driftctl lock --axes z` holds z where it is",
      place, is_told ? ", and z is locked" : "");
}

/// Tells a problem once, until there is another one or none.
void SweepMemory::tell_problem() {
  const std::string why = writer_->problem();
  if (why == told_) return;
  told_ = why;
  const bool is_kept = under_way_ || left_;
  if (why.empty() && !is_kept) return;  // a file that is removed asks little of a disk
  if (why.empty())
    events_.raise(Level::Info, "state_not_written",
                  "where a calibration of z begins is written again");
  else
    events_.raise(
        Level::Warning, "state_not_written",
        fmt::format("{}: {}",
                    under_way_ ? "the next driftd would not know where a calibration of z began"
                    : left_    ? "where an interrupted calibration of z began is not written anew"
                            : "a calibration of z that has ended would be found at the next start",
                    why));
}

}  // namespace driftd::daemon
