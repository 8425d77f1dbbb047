// SPDX-License-Identifier: MIT
#include "clients/web/messages.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "clients/common/plain.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;

constexpr int kHistogramBits = 6;
constexpr std::size_t kHistogramBins = std::size_t{1} << kHistogramBits;

double number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>()
                                                     : std::numeric_limits<double>::quiet_NaN();
}

Pair pair_of(const json& object, const char* x, const char* y) {
  return {number(object, x), number(object, y)};
}

int whole(const json& object, const char* key) {
  const auto found = object.find(key);
  constexpr std::int64_t kLargest = 1'000'000;
  if (found == object.end() || !found->is_number_integer()) return -1;
  const auto value = found->get<std::int64_t>();
  return value >= 0 && value <= kLargest ? static_cast<int>(value) : -1;
}

/// Reads the numbers of a flat object without making one: hundreds come a second.
class PositionReader : public nlohmann::json_sax<json> {
 public:
  double number(std::string_view key) const {
    const auto* const at = std::ranges::find(kKeys, key);
    return numbers_[static_cast<std::size_t>(at - kKeys.begin())];
  }
  bool flag(std::string_view key) const { return number(key) == 1; }
  const std::string& state() const { return state_; }

  bool key(string_t& name) override {
    at_ = static_cast<std::size_t>(std::ranges::find(kKeys, name) - kKeys.begin());
    is_state_ = name == "state";
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool value) override { return take(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return take(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return take(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return take(value); }
  bool string(string_t& value) override {
    if (is_state_) state_ = value;
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return !std::exchange(inside_, true); }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  static constexpr std::array<std::string_view, 13> kKeys = {
      "arrival_ns", "frame_id", "in_lock",  "valid",        "x_nm",         "y_nm", "frame_x_nm",
      "frame_y_nm", "set_x_nm", "set_y_nm", "witness_x_nm", "witness_y_nm", "z_nm"};

  static std::array<double, kKeys.size()> unknown() {
    std::array<double, kKeys.size()> all{};
    all.fill(std::numeric_limits<double>::quiet_NaN());
    return all;
  }
  bool take(double value) {
    if (at_ < kKeys.size()) numbers_[at_] = value;
    return inside_;
  }

  std::array<double, kKeys.size()> numbers_ = unknown();
  std::string state_;
  std::size_t at_ = kKeys.size();
  bool is_state_ = false, inside_ = false;
};

/// The pixels of a frame, of which each is there. These are what costs a picture its time.
class Pixels {
 public:
  Pixels(const std::string& bytes, int width) : bytes_(bytes.data()), width_(width) {}

  unsigned at(int x, int y) const {
    const char* const pixel = bytes_of(x, y);
    return static_cast<unsigned char>(pixel[0]) +
           (static_cast<unsigned>(static_cast<unsigned char>(pixel[1])) << 8U);
  }
  const char* bytes_of(int x, int y) const {
    return bytes_ + 2 * (static_cast<std::ptrdiff_t>(y) * width_ + x);
  }

 private:
  const char* bytes_;
  int width_;
};

Region within(const std::optional<Region>& wanted, int width, int height) {
  if (!wanted) return {0, 0, width, height};
  Region region;
  region.x0 = std::clamp(wanted->x0, 0, width - 1);
  region.y0 = std::clamp(wanted->y0, 0, height - 1);
  region.width = std::clamp(wanted->width, 1, width - region.x0);
  region.height = std::clamp(wanted->height, 1, height - region.y0);
  return region;
}

std::string binned(const Pixels& pixels, const Region& region, int bin, int width, int height) {
  const auto row_bytes = 2 * static_cast<std::size_t>(width);
  std::string payload;
  if (bin == 1) {
    payload.reserve(row_bytes * static_cast<std::size_t>(height));
    for (int y = 0; y < height; ++y)
      payload.append(pixels.bytes_of(region.x0, region.y0 + y), row_bytes);
    return payload;
  }
  payload.resize(row_bytes * static_cast<std::size_t>(height));
  char* out = payload.data();
  const auto area = static_cast<unsigned>(bin * bin);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      unsigned sum = area / 2;
      for (int j = 0; j < bin; ++j)
        for (int i = 0; i < bin; ++i)
          sum += pixels.at(region.x0 + x * bin + i, region.y0 + y * bin + j);
      const unsigned mean = sum / area;
      *out++ = static_cast<char>(mean & 0xffU);
      *out++ = static_cast<char>(mean >> 8U);
    }
  }
  return payload;
}

}  // namespace

json number_or_null(double value) {
  constexpr double kPerNm = 1e4;
  constexpr double kLargest = 1e11;  // beyond it there are no such digits
  if (!std::isfinite(value)) return nullptr;
  return std::abs(value) < kLargest ? std::round(value * kPerNm) / kPerNm : value;
}

std::string packed(const json& header, std::string_view payload) {
  const std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string message;
  message.reserve(4 + text.size() + payload.size());
  for (unsigned shift = 0; shift < 32; shift += 8)
    message += static_cast<char>((text.size() >> shift) & 0xffU);
  message.append(text).append(payload);
  return message;
}

std::optional<Sample> sample_of(std::string_view position, const json& correction) {
  constexpr double kNs = 1e-9;
  PositionReader read;
  if (!json::sax_parse(position, &read)) return std::nullopt;
  Sample sample;
  sample.t_s = read.number("arrival_ns") * kNs;
  if (!std::isfinite(sample.t_s)) return std::nullopt;
  if (const double id = read.number("frame_id"); id >= 0 && id < 1e15)
    sample.frame_id = static_cast<std::uint64_t>(id);
  sample.in_lock = read.flag("in_lock");
  sample.state = clients::plain(read.state());
  sample.set_nm = {read.number("set_x_nm"), read.number("set_y_nm")};
  sample.z_nm = read.number("z_nm");
  sample.witness_nm = {read.number("witness_x_nm"), read.number("witness_y_nm")};
  if (read.flag("valid")) {
    sample.drift_nm = {read.number("x_nm"), read.number("y_nm")};
    sample.frame_nm = {read.number("frame_x_nm"), read.number("frame_y_nm")};
    for (std::size_t axis = 0; axis < 2; ++axis)
      sample.residual_nm[axis] = sample.frame_nm[axis] - sample.set_nm[axis];
  }
  if (correction.is_object()) {
    sample.correction_nm = pair_of(correction, "total_x_nm", "total_y_nm");
    sample.correction_z_nm = number(correction, "total_z_nm");
  }
  return sample;
}

bool SampleSieve::passes(double t_s) {
  constexpr double kJitter = 0.9;  // a camera of 20 frames/s is shown whole
  if (last_s_ && t_s >= *last_s_ && t_s < *last_s_ + kJitter * kEveryS) return false;
  last_s_ = t_s;
  return true;
}

json samples_message(const std::vector<Sample>& samples, bool past) {
  json message = {{"kind", "samples"}};
  if (past) message["past"] = true;
  json& t_s = message["t_s"] = json::array();
  json& in_lock = message["in_lock"] = json::array();
  json& state = message["state"] = json::array();
  for (const Sample& sample : samples) {
    t_s.push_back(std::round(sample.t_s * 1e6) * 1e-6);
    in_lock.push_back(sample.in_lock);
    state.push_back(sample.state);
  }
  const auto add = [&](const char* name, Pair Sample::*values) {
    json both = json::array({json::array(), json::array()});
    for (const Sample& sample : samples)
      for (std::size_t axis = 0; axis < 2; ++axis)
        both[axis].push_back(number_or_null((sample.*values)[axis]));
    message[name] = std::move(both);
  };
  add("drift_nm", &Sample::drift_nm);
  add("residual_nm", &Sample::residual_nm);
  add("correction_nm", &Sample::correction_nm);
  add("witness_nm", &Sample::witness_nm);
  add("set_nm", &Sample::set_nm);
  const auto add_of_z = [&](const char* name, double Sample::*value) {
    const auto is_known = [value](const Sample& sample) { return std::isfinite(sample.*value); };
    if (!std::ranges::any_of(samples, is_known)) return;
    json& values = message[name] = json::array();
    for (const Sample& sample : samples) values.push_back(number_or_null(sample.*value));
  };
  add_of_z("z_nm", &Sample::z_nm);
  add_of_z("correction_z_nm", &Sample::correction_z_nm);
  return message;
}

json markers_message(const json& markers, double gain_e_per_adu) {
  json message = {{"kind", "markers"}, {"frame_id", markers.value("frame_id", json())}};
  json& list = message["markers"] = markers.value("markers", json::array());
  if (!list.is_array()) list = json::array();
  for (json& marker : list) {
    if (!marker.is_object()) continue;
    const double sigma_px = number(marker, "sigma_px");
    const double photons = 2 * std::numbers::pi * sigma_px * sigma_px *
                           number(marker, "amplitude_adu") * gain_e_per_adu;
    marker["photons"] =
        gain_e_per_adu > 0 && std::isfinite(photons) ? json(std::round(photons)) : json();
  }
  return message;
}

bool take_wants(std::string_view text, Wants& wants) {
  const json said = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || said.size() != 1 || !said.contains("want") || !said["want"].is_object())
    return false;
  Wants taken = wants;
  for (const auto& [key, value] : said["want"].items()) {
    if ((key == "images" || key == "spectrum") && value.is_boolean()) {
      (key == "images" ? taken.images : taken.spectrum) = value.get<bool>();
    } else if (key == "region" && value.is_null()) {
      taken.region.reset();
    } else if (key == "region" && value.is_array() && value.size() == 4) {
      Region region;
      int* const numbers[] = {&region.x0, &region.y0, &region.width, &region.height};
      for (std::size_t i = 0; i < 4; ++i) {
        if (!value[i].is_number()) return false;
        const double number = value[i].get<double>();
        if (!(std::abs(number) <= 1e6)) return false;
        *numbers[i] = static_cast<int>(number);
      }
      taken.region = region;
    } else {
      return false;
    }
  }
  wants = taken;
  return true;
}

std::optional<std::string> image_message(const Snapshot& snapshot, const View& view) {
  const json& frame = snapshot.frame;
  const int full_width = whole(frame, "width_px");
  const int full_height = whole(frame, "height_px");
  const int bits = whole(frame, "bits");
  if (full_width < 1 || full_height < 1 || bits < 1 || bits > 16 ||
      snapshot.pixels.size() !=
          2 * static_cast<std::size_t>(full_width) * static_cast<std::size_t>(full_height))
    return std::nullopt;
  const Region shown = within(view.region, full_width, full_height);
  int bin = (std::max(shown.width, shown.height) + kMostSide - 1) / kMostSide;
  const auto bytes = [&shown](int by) {
    return std::size_t{2} * static_cast<std::size_t>(std::max(1, shown.width / by)) *
           static_cast<std::size_t>(std::max(1, shown.height / by));
  };
  while (bin < std::min(shown.width, shown.height) && bytes(bin) > view.most_bytes) ++bin;
  // What is left over at the end of a row is too narrow for a pixel of this picture.
  const int width = std::max(1, shown.width / bin);
  const int height = std::max(1, shown.height / bin);
  Region whole_bins = shown;
  whole_bins.x0 = std::min(shown.x0, full_width - width * bin);
  whole_bins.y0 = std::min(shown.y0, full_height - height * bin);
  if (whole_bins.x0 < 0 || whole_bins.y0 < 0) return std::nullopt;

  const unsigned max_value = (1U << static_cast<unsigned>(bits)) - 1;
  const unsigned saturated_at =
      snapshot.saturation > 0 ? static_cast<unsigned>(snapshot.saturation) : max_value;
  std::vector<std::uint64_t> histogram(kHistogramBins);
  std::uint64_t saturated = 0;
  const unsigned less = static_cast<unsigned>(std::max(0, bits - kHistogramBits));
  const unsigned more = static_cast<unsigned>(std::max(0, kHistogramBits - bits));
  const Pixels pixels(snapshot.pixels, full_width);
  for (int y = 0; y < full_height; ++y) {
    for (int x = 0; x < full_width; ++x) {
      const unsigned value = pixels.at(x, y);
      ++histogram[std::min(kHistogramBins - 1, std::size_t{value} >> less << more)];
      if (value >= saturated_at) ++saturated;
    }
  }
  const json header = {{"kind", "image"},
                       {"frame_id", frame.value("frame_id", json())},
                       {"width", width},
                       {"height", height},
                       {"bin", bin},
                       {"x0", whole_bins.x0},
                       {"y0", whole_bins.y0},
                       {"full_width", full_width},
                       {"full_height", full_height},
                       {"offset_x_px", frame.value("offset_x_px", json())},
                       {"offset_y_px", frame.value("offset_y_px", json())},
                       {"max_value", max_value},
                       {"saturated_at", saturated_at},
                       {"saturated", saturated},
                       {"histogram", histogram},
                       {"rois", frame.value("rois", json::array())}};
  return packed(header, binned(pixels, whole_bins, bin, width, height));
}

}  // namespace driftd::web
