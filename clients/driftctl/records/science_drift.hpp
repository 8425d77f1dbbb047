// SPDX-License-Identifier: MIT
// The drift of a record while another camera exposed: the mean over the exposure of each of its
// frames. Pure functions; no file.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/rows.hpp"

namespace driftd::clients {

/// One frame of the other camera, CLOCK_MONOTONIC of the daemon's host.
struct Exposure {
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// NaN where nothing was measured near it.
struct ScienceDrift {
  double x_nm = 0, y_nm = 0;
  double x_sd_nm = 0, y_sd_nm = 0;
  int frames = 0;  ///< of the record within the exposure; 0: between two of them, or none near
  bool measured = false;
  /// z has a validity of its own; NaN: not measured.
  double z_nm = std::numeric_limits<double>::quiet_NaN();
  double z_sd_nm = std::numeric_limits<double>::quiet_NaN();
};

ScienceDrift not_measured();

/// What z of a frame is relative to, where it has a lock of its own.
struct ZReference {
  std::uint32_t lock_id = 0;  ///< 0: as x and y
  bool is_taken = false;      ///< false: the lock is taking it, from the frame where that began

  bool operator==(const ZReference&) const = default;
};

/// The drift of a record frame by frame, with one zero: where the daemon took a new reference, what
/// was measured before goes on without a step.
class DriftCurve {
 public:
  void add(std::span<const record::FrameRow> rows);
  /// Frames must have been added in the order of their times.
  ScienceDrift over(const Exposure& exposure) const;
  /// The drift in the frame with that number; not measured where there is none.
  ScienceDrift at_frame(std::uint64_t frame_id) const;
  bool empty() const noexcept { return points_.empty(); }
  /// A frame of it has a z.
  bool has_z() const noexcept { return has_z_; }
  /// A frame with a drift.
  struct Place {
    std::int64_t taken_ns, wall_ns;
    std::uint64_t frame_id;
  };
  /// It must not be empty.
  const Place& first() const noexcept { return first_; }
  const Place& last() const noexcept { return last_; }
  /// Sentences for people: what the curve cannot know.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  struct Point {
    std::int64_t taken_ns;
    std::uint64_t frame_id;
    float x_sd_nm, y_sd_nm, z_sd_nm;
    double x_nm, y_nm, z_nm;  ///< z: NaN where it was not measured
  };
  void begin_zero(const record::FrameRow& row);
  void join_zeros();
  void begin_z_zero(const record::FrameRow& row, const ZReference& reference);
  void join_z_zeros();
  /// Mean of those that have one; NaN where none has.
  double mean_z_nm(std::size_t begin, std::size_t end) const;
  /// Of z alone, which a lock of its own has taken a new reference of.
  void step_z(std::size_t begin);

  std::vector<Point> points_;
  Place first_{}, last_{};
  std::uint32_t reference_ = 0;
  double offset_x_nm_ = 0, offset_y_nm_ = 0, offset_z_nm_ = 0;
  bool has_z_ = false;
  std::size_t zero_begin_ = 0;  ///< the first point since the zero was changed
  bool joined_ = true;
  ZReference z_reference_;
  std::size_t z_zero_begin_ = 0;
  bool z_joined_ = true;
  std::vector<std::string> notes_;
};

/// The host's clock against CLOCK_MONOTONIC over a record. It may have been set meanwhile.
class WallClock {
 public:
  explicit WallClock(std::vector<record::ClockRow> rows);
  bool empty() const noexcept { return rows_.empty(); }
  /// None for a time that it passed twice, being set back, or never, being set forward.
  std::optional<std::int64_t> monotonic_ns(std::int64_t wall_ns) const;
  /// How often it was set.
  std::size_t steps() const noexcept { return begins_.size() - 1; }
  /// How well two clocks of one computer are joined: what the readings leave open and the host's
  /// clock was slewed between two of them, at most.
  std::int64_t uncertainty_ns() const;
  /// The largest error of the host's clock against UTC; -1: not known.
  std::int64_t utc_error_ns() const;

 private:
  std::vector<record::ClockRow> rows_;
  std::vector<std::size_t> begins_;  ///< the first row, and each one before which it was set
};

}  // namespace driftd::clients
