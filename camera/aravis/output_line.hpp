// SPDX-License-Identifier: MIT
// One of the camera's lines as an output that a program sets: GenICam's LineSelector, LineMode,
// LineSource and UserOutputValue (SFNC 2.7, ch. 9). Whoever connects prepares it, and sets it.
#pragma once

#include <string>
#include <vector>

#include "camera/aravis/handles.hpp"

namespace driftd::camera::aravis {

class OutputLine {
 public:
  /// From now on set() commands the line, which is low. A camera that has no such line, or keeps it
  /// as an input, gets a note, and set() does nothing.
  /// @param line  the camera's name of it; empty: none is wanted
  /// @throws CameraError when the camera does not answer
  void prepare(ArvCamera* camera, const std::string& line, std::vector<CameraNote>& notes);
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  /// @throws CameraError when the camera does not answer
  /// @returns why the camera refused; empty when it obeyed
  [[nodiscard]] std::string set(ArvCamera* camera, bool high) const;

 private:
  bool ready_ = false;
};

}  // namespace driftd::camera::aravis
