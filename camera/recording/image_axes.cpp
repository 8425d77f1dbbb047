// SPDX-License-Identifier: MIT
#include "camera/recording/image_axes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/counted.hpp"
#include "camera/recording/planes.hpp"

namespace driftd::camera {
namespace {

constexpr std::size_t kMostGapsShown = 5;
constexpr std::size_t kMostShown = 60;
constexpr std::size_t kMostNamesShown = 3;

bool is_of_number(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// A name taken apart: "t12.5s", also "t12,5s", is "t", 12.5, "s".
struct NumbersInName {
  std::string text;  ///< '\0' in place of each number
  std::vector<double> numbers;
};

NumbersInName numbers_of(std::string name) {
  name.erase(0, name.find_first_not_of(' '));
  name.resize(name.find_last_not_of(' ') + 1);
  for (std::size_t i = 1; i + 1 < name.size(); ++i) {
    if (name[i] == ',' && is_of_number(name[i - 1]) && is_of_number(name[i + 1])) name[i] = '.';
  }
  NumbersInName parts;
  for (std::size_t at = 0; at < name.size();) {
    const bool number = is_of_number(name[at]) ||
                        (at == 0 && name[at] == '-' && name.size() > 1 && is_of_number(name[1]));
    double value = 0;
    const char* const begin = name.data() + at;
    const auto read =
        number ? std::from_chars(begin, name.data() + name.size(), value, std::chars_format::fixed)
               : std::from_chars_result{begin, std::errc::invalid_argument};
    if (read.ec == std::errc()) {
      parts.text += '\0';
      parts.numbers.push_back(value);
      at += static_cast<std::size_t>(read.ptr - begin);
    } else {
      parts.text += name[at++];
    }
  }
  return parts;
}

}  // namespace

std::string missing_between(std::span<const std::int64_t> ascending) {
  std::int64_t step = 0;
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    const std::int64_t here = ascending[i] - ascending[i - 1];
    if (here > 0 && (step == 0 || here < step)) step = here;
  }
  std::size_t even = 0;
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    if (ascending[i] - ascending[i - 1] == step) ++even;
  }
  if (2 * even < ascending.size()) return {};  // they do not count
  std::string text;
  std::size_t gaps = 0;
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    const std::int64_t first = ascending[i - 1] + step, last = ascending[i] - step;
    if (first > last || ++gaps > kMostGapsShown) continue;
    text += (gaps == 1 ? "" : ", ") + std::to_string(first);
    if (last > first) text += " to " + std::to_string(last);
  }
  return gaps > kMostGapsShown
             ? text + " and " + std::to_string(gaps - kMostGapsShown) + " more gaps"
             : text;
}

/// Images that are left, and what they have along an axis.
class ImageAxes::Choice {
 public:
  Choice(const ImageAxes& all, const StackSettings& settings, std::vector<std::string>& notes)
      : all_(all), settings_(settings), notes_(notes) {
    for (std::size_t i = 0; i < all.images_.size(); ++i) left_.push_back(i);
  }

  [[nodiscard]] bool varies(std::size_t axis) const {
    return std::ranges::any_of(left_, [&](std::size_t image) {
      return value_of(image, axis) != value_of(left_.front(), axis);
    });
  }

  /// Leaves the images of one value along an axis.
  void choose(std::string_view name, const char* what, const char* several, const char* option,
              int chosen) {
    const std::size_t axis = all_.axis_named(name);
    const std::vector<const Value*> values = values_along(axis);
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < std::max<std::size_t>(values.size(), 1); ++i) {
      labels.push_back(i < values.size() ? label(*values[i]) : "");
      if (labels.back() == std::to_string(i)) labels.back().clear();
    }
    const auto index = static_cast<std::size_t>(
        choose_one(settings_.path, {.what = what,
                                    .several = several,
                                    .option = option,
                                    .chosen = chosen,
                                    .count = static_cast<std::int64_t>(labels.size()),
                                    .names = labels}));
    if (values.size() < 2) return;
    const int kept = values[index]->second;
    std::erase_if(left_, [&](std::size_t image) { return value_of(image, axis) != kept; });
    notes_.push_back(std::string(name) + " " + std::to_string(index) +
                     (labels[index].empty() ? "" : " (" + labels[index] + ")"));
  }

  /// The axis along which the images that are left differ; that of time where none does.
  std::size_t axis_of_frames() {
    std::vector<std::size_t> varying;
    std::string there;
    for (std::size_t axis = 0; axis < all_.axes_.size(); ++axis) {
      if (!varies(axis)) continue;
      there += (varying.empty() ? "" : ", ") + name_of_axis(axis) + " (" +
               std::to_string(values_along(axis).size()) + ")";
      varying.push_back(axis);
    }
    if (varying.size() > 1) {
      throw RecordingError(settings_.path, "has images along " + there +
                                               ": which of them are a movie is not known; the "
                                               "option " +
                                               settings_.names.every_page + " takes each page");
    }
    if (varying.empty()) return all_.axis_named("time");
    if (all_.axes_[varying.front()].name != "time") {
      notes_.push_back("its frames are along " + name_of_axis(varying.front()));
    }
    return varying.front();
  }

  std::vector<std::size_t> in_order(std::size_t axis) {
    std::map<int, std::size_t> last;
    for (const std::size_t image : left_) last[value_of(image, axis)] = image;
    std::vector<std::size_t> frames;
    std::vector<std::int64_t> numbers;
    bool whole = true;
    if (last.contains(0)) frames.push_back(last.at(0));
    if (last.contains(0) && last.size() > 1) {
      notes_.push_back("one of its images says nothing of " + name_of_axis(axis) +
                       ": it is taken for the first");
    }
    std::vector<const Value*> values = values_along(axis);
    order_names(axis, values);
    for (const Value* value : values) {
      if (value->second == 0) continue;
      frames.push_back(last.at(value->second));
      whole = whole && value->first.fraction == 0;
      if (value->first.text.empty()) numbers.push_back(value->first.number);
    }
    const std::string missing = whole ? missing_between(numbers) : "";
    if (!missing.empty()) {
      notes_.push_back("has no image of " + name_of_axis(axis) + " " + missing +
                       ": frames are counted without");
    }
    if (frames.size() < left_.size()) {
      const std::size_t double_ones = left_.size() - frames.size();
      notes_.push_back(std::to_string(double_ones) + " of its images " +
                       (double_ones == 1 ? "stands" : "stand") +
                       " where a later one does: the later one counts");
    }
    return frames;
  }

 private:
  using Value = std::pair<const AxisValue, int>;

  [[nodiscard]] int value_of(std::size_t image, std::size_t axis) const {
    const std::vector<int>& values = all_.images_[image];
    return axis < values.size() ? values[axis] : 0;
  }
  [[nodiscard]] std::string name_of_axis(std::size_t axis) const {
    return all_.axes_[axis].name.substr(0, kMostShown);
  }
  static std::string label(const Value& value) {
    if (value.second == 0) return "none";
    return value.first.in_words();
  }
  /// The values that occur along an axis: none, numbers in their order, names as they came.
  [[nodiscard]] std::vector<const Value*> values_along(std::size_t axis) const {
    static const Value none{{}, 0};
    std::vector<const Value*> found;
    if (axis >= all_.axes_.size()) return found;
    const auto& values = all_.axes_[axis].values;
    std::vector<bool> occurs(values.size() + 1);
    for (const std::size_t image : left_) {
      occurs[static_cast<std::size_t>(value_of(image, axis))] = true;
    }
    if (occurs[0]) found.push_back(&none);
    for (const Value& value : values) {
      if (occurs[static_cast<std::size_t>(value.second)]) found.push_back(&value);
    }
    const auto names =
        std::ranges::find_if(found, [](const Value* v) { return !v->first.text.empty(); });
    std::ranges::sort(names, found.end(), {}, [](const Value* v) { return v->second; });
    return found;
  }

  /// Puts the names at the end of some values of an axis in the order of the numbers in them, where
  /// they are alike but for these. Else they stay as they came, which is told.
  void order_names(std::size_t axis, std::vector<const Value*>& values) {
    const auto is_name = [](const Value* value) { return !value->first.text.empty(); };
    const auto first = std::ranges::find_if(values, is_name);
    std::vector<std::pair<NumbersInName, const Value*>> names;
    for (auto value = first; value != values.end(); ++value)
      names.emplace_back(numbers_of((*value)->first.text), *value);
    const std::string text = names.empty() ? "" : names.front().first.text;
    const bool alike = std::ranges::all_of(names, [&text](const auto& name) {
      return name.first.text == text && !name.first.numbers.empty();
    });
    if (alike) {
      std::ranges::stable_sort(names, {}, [](const auto& name) { return name.first.numbers; });
      std::ranges::transform(names, first, [](const auto& name) { return name.second; });
    }
    const bool behind_numbers =
        std::any_of(values.begin(), first, [](const Value* value) { return value->second != 0; });
    if (names.empty() || (!behind_numbers && (alike || names.size() == 1))) return;
    std::string some;
    for (std::size_t i = 0; i < std::min(names.size(), kMostNamesShown); ++i)
      some += (i == 0 ? "" : ", ") + label(*names[i].second).substr(0, kMostShown);
    if (names.size() > kMostNamesShown) some += ", ...";
    notes_.push_back("has images whose " + name_of_axis(axis) + " is a name (" + some +
                     "): " + (behind_numbers ? "they come behind those that are numbers, " : "") +
                     (alike ? "in the order of the numbers in the names"
                            : "in the order in which the file has them"));
  }

  const ImageAxes& all_;
  const StackSettings& settings_;
  std::vector<std::string>& notes_;
  std::vector<std::size_t> left_;
};

std::string AxisValue::in_words() const {
  if (!text.empty()) return text;
  if (fraction == 0) return std::to_string(number);
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                 static_cast<double>(number) + fraction);
  return {digits.data(), end.ptr};
}

std::size_t ImageAxes::axis_named(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::find(axes_, name, &Axis::name) - axes_.begin());
}

void ImageAxes::place(std::string_view axis, const AxisValue& value) {
  const std::size_t index = axis_named(axis);
  if (index == axes_.size()) axes_.push_back({std::string(axis), {}});
  auto& values = axes_[index].values;
  const int next = static_cast<int>(values.size()) + 1;
  std::vector<int>& image = images_.back();
  image.resize(std::max(image.size(), index + 1));
  image[index] = values.try_emplace(value, next).first->second;
}

const AxisValue* ImageAxes::value_along(std::string_view name, std::size_t image) const {
  const std::size_t axis = axis_named(name);
  const int number = axis < images_[image].size() ? images_[image][axis] : 0;
  if (number == 0) return nullptr;
  const auto& values = axes_[axis].values;
  return &std::ranges::find_if(values, [&](const auto& v) { return v.second == number; })->first;
}

std::string ImageAxes::place_of(std::size_t image) const {
  std::string place;
  for (const char* const name : {"channel", "position"}) {
    const AxisValue* const value = value_along(name, image);
    if (value == nullptr) continue;
    place += (place.empty() ? "" : ", ") + std::string(name) + " " +
             value->in_words().substr(0, kMostShown);
  }
  return place;
}

std::optional<double> ImageAxes::number_along(std::string_view axis, std::size_t image) const {
  const AxisValue* const value = value_along(axis, image);
  if (value == nullptr || !value->text.empty()) return std::nullopt;
  return static_cast<double>(value->number) + value->fraction;
}

std::vector<std::size_t> ImageAxes::frames(const StackSettings& settings,
                                           std::vector<std::string>& notes) const {
  Choice choice(*this, settings, notes);
  choice.choose("position", "position", "positions", settings.names.series, settings.series);
  choice.choose("channel", "channel", "channels", settings.names.channel, settings.channel);
  const std::size_t time = axis_named("time");
  if (settings.slice >= 0 || (time < axes_.size() && choice.varies(time))) {
    choice.choose("z", "position in z at each time", "positions in z at each time",
                  settings.names.slice, settings.slice);
  }
  return choice.in_order(choice.axis_of_frames());
}

}  // namespace driftd::camera
