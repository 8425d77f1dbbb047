// SPDX-License-Identifier: MIT
// What the drift estimator did to its references in a frame, for z, whose references are taken of
// the same frames. A value.
#pragma once

#include <cstdint>

#include "control/drift/drift_estimator.hpp"

namespace driftd::control {

class ReferenceFollower {
 public:
  enum class Change : std::uint8_t {
    None,
    NewZero,   ///< this frame's places are the references, for now
    Complete,  ///< those taken of the last frames are in force
  };

  Change follow(const DriftEstimator& lateral) noexcept {
    const bool changed = lateral.references() != references_;
    const bool complete = changed && taking_ && !lateral.referencing();
    references_ = lateral.references();
    taking_ = lateral.referencing();
    if (complete) return Change::Complete;
    if (changed && taking_) frames_ = lateral.reference_left() + 1;
    return changed ? Change::NewZero : Change::None;
  }
  /// The references as they are now are nothing new.
  void catch_up(const DriftEstimator& lateral) noexcept {
    references_ = lateral.references();
    taking_ = false;
  }
  /// x and y take a reference.
  bool taking() const noexcept { return taking_; }
  /// That the last one was taken of, or will be.
  int frames() const noexcept { return frames_; }

 private:
  static constexpr int kDefaultFrames = 16;
  std::uint32_t references_ = 0;
  bool taking_ = false;
  int frames_ = kDefaultFrames;
};

}  // namespace driftd::control
