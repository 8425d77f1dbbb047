// SPDX-License-Identifier: MIT
// What a lock's drift is relative to, as the lock sees it: x and y have the drift estimator's
// references, z those of its widths or of its reflected spot. Either is taken without the other.
// Tracking loop; noexcept; no allocation.
#pragma once

#include <cstdint>
#include <memory>

#include "control/axial/reflection_estimator.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

class GroupReference {
 public:
  GroupReference() = default;
  GroupReference(const GroupReference&) = delete;
  GroupReference& operator=(const GroupReference&) = delete;
  virtual ~GroupReference() = default;

  /// Whether there is something to take one of.
  virtual bool is_possible() const noexcept = 0;
  /// The mean of so many good frames, from the next one on, becomes the reference.
  virtual void begin(int frames) noexcept = 0;
  /// Good frames until there is one; 0: none is being taken.
  virtual int left() const noexcept = 0;
  virtual void restart_average() noexcept = 0;
};

class LateralReference final : public GroupReference {
 public:
  /// @param set  the loop's present markers; null while there are none
  explicit LateralReference(const std::unique_ptr<MarkerSet>& set) : set_(set) {}

  bool is_possible() const noexcept override { return set_ != nullptr; }
  void begin(int frames) noexcept override { set_->estimator.begin_reference(frames); }
  int left() const noexcept override { return set_ ? set_->estimator.reference_left() : 0; }
  /// That of z, too, unless z is engaged: its own lock sees to it then.
  void restart_average() noexcept override {
    if (!set_) return;
    set_->estimator.restart_average();
    if (!set_->axial.keeps_zero()) set_->axial.restart_average();
  }

 private:
  const std::unique_ptr<MarkerSet>& set_;
};

class AxialReference final : public GroupReference {
 public:
  /// @param reflection  z is read from it; null: from the markers' widths
  AxialReference(const std::unique_ptr<MarkerSet>& set, control::ReflectionEstimator* reflection)
      : set_(set), reflection_(reflection) {}

  bool is_possible() const noexcept override { return reflection_ != nullptr || set_ != nullptr; }
  void begin(int frames) noexcept override {
    if (reflection_ != nullptr)
      reflection_->begin_reference(frames);
    else
      set_->axial.begin_reference(frames);
  }
  int left() const noexcept override {
    if (reflection_ != nullptr) return reflection_->reference_left();
    return set_ ? set_->axial.reference_left() : 0;
  }
  void restart_average() noexcept override {
    if (reflection_ != nullptr)
      reflection_->restart_average();
    else if (set_)
      set_->axial.restart_average();
  }
  /// Grows with each new zero of z.
  std::uint32_t zeros() const noexcept {
    if (reflection_ != nullptr) return reflection_->zeros();
    return set_ ? set_->axial.zeros() : 0;
  }
  /// While z is engaged its zero stays, whatever x and y do with theirs.
  void keep(bool kept) noexcept {
    if (reflection_ != nullptr)
      reflection_->keep_zero(kept);
    else if (set_)
      set_->axial.keep_zero(kept);
  }

 private:
  const std::unique_ptr<MarkerSet>& set_;
  control::ReflectionEstimator* reflection_;
};

}  // namespace driftd::daemon
