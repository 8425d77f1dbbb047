// SPDX-License-Identifier: MIT
// Which images of a recording are the frames of a movie, where each image says by itself where it
// stands along axes with names, as Micro-Manager's do. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "camera/recording/image_stack.hpp"

namespace driftd::camera {

/// Where an image stands along an axis: by a number or by a name. Numbers come before names.
struct AxisValue {
  std::string text = {};  ///< "": by the number
  std::int64_t number = 0;
  double fraction = 0;  ///< to be added, where the number is not whole; below 1
  bool operator<(const AxisValue& other) const {
    return std::tie(text, number, fraction) < std::tie(other.text, other.number, other.fraction);
  }
  std::string in_words() const;
};

class ImageAxes {
 public:
  /// An image, before anything is said of it.
  void add_image() { images_.emplace_back(); }
  /// Says where along an axis the image that was added last stands.
  void place(std::string_view axis, const AxisValue& value);

  /// The images of one position, channel and z in the order of time, or of z where there is one
  /// time alone and the settings name no z; of images that stand at one place the last.
  /// @param notes  get what was chosen, and what is missing
  /// @throws RecordingError that says what there is, where the settings do not choose
  std::vector<std::size_t> frames(const StackSettings& settings,
                                  std::vector<std::string>& notes) const;
  /// "channel GFP, position 2": of an image, as far as it says so.
  std::string place_of(std::size_t image) const;
  /// Where an image stands along an axis; nothing where it does not say so by a number.
  std::optional<double> number_along(std::string_view axis, std::size_t image) const;

 private:
  struct Axis {
    std::string name;
    std::map<AxisValue, int> values;  ///< numbered as they came
  };
  class Choice;

  std::size_t axis_named(std::string_view name) const;  ///< axes_.size(): none is
  /// nullptr: the image does not say.
  const AxisValue* value_along(std::string_view name, std::size_t image) const;

  std::vector<Axis> axes_;
  std::vector<std::vector<int>> images_;  ///< by axis: the value's number, from 1; 0, or none: none
};

/// What is missing between numbers that mostly go on by one step: "3, 9 to 11"; "": nothing.
std::string missing_between(std::span<const std::int64_t> ascending);

}  // namespace driftd::camera
