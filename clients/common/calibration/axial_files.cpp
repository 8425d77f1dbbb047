// SPDX-License-Identifier: MIT
#include "clients/common/calibration/axial_files.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "clients/common/calibration/axial_calibration.hpp"
#include "clients/common/calibration/written_words.hpp"
#include "clients/common/replace_file.hpp"
#include "config/options.hpp"
#include "control/axial/curve_file.hpp"

namespace driftd::clients {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Files that were replaced, until it is known that all of them are right.
class Replaced {
 public:
  explicit Replaced(fs::path model) : model_(std::move(model)) {}

  void replace(const fs::path& file, const std::string& text) {
    add(file, replace_file(file, model_, content_of(file), text));
    const fs::path& old = files_.back().old;
    lines_.push_back(fmt::format("Written to {}{}.", file.string(),
                                 old.empty() ? "" : "; the one before is " + old.string()));
  }
  /// @param old  where the text before is; empty: there was none
  void add(fs::path file, fs::path old) { files_.push_back({std::move(file), std::move(old)}); }
  const std::vector<std::string>& lines() const noexcept { return lines_; }

  /// As before. @returns what could not be brought back, for people; "": nothing
  std::string undo() const {
    std::string left;
    for (auto one = files_.rbegin(); one != files_.rend(); ++one) {
      std::error_code error;
      if (one->old.empty())
        fs::remove(one->file, error);
      else  // where a symbolic link led to
        fs::rename(one->old, fs::weakly_canonical(one->file), error);
      if (error)
        left += fmt::format("; {} is not as it was: {}", one->file.string(), error.message());
    }
    return left;
  }

 private:
  struct One {
    fs::path file, old;
  };
  fs::path model_;
  std::vector<One> files_;
  std::vector<std::string> lines_;
};

/// @throws std::runtime_error where the file is not the curve that the text is
void check_curve(const fs::path& file, const std::string& text) {
  if (content_of(file) != text)
    throw std::runtime_error(file.string() + " reads otherwise than it was written");
  if (!control::read_curve_file(file).fits)
    throw std::runtime_error(file.string() + " does not say by which fits it was made");
}

/// The file may have been edited since driftd read it. @throws std::runtime_error where driftd
/// would refuse the curve with it
void check_curve_in_use(const config::Config& now) {
  if (!now.axial.by_widths() || now.axial.curve.empty()) return;
  const control::CurveFile curve = control::read_curve_file(now.axial.curve);
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(fmt::format(
        "the configuration was changed since driftd read it, and would not start with {}: {}",
        now.axial.curve.string(), why));
  };
  if (curve.curve.method() != now.axial.method) refuse("it is of another axial.method");
  if (!curve.fits) return;
  control::CurveFits fits = *curve.fits;
  if (now.fitter.roi_px != 0) fits.roi_px = now.fitter.roi_px;
  fits.pixel_size_nm = now.optics.pixel_size_nm;
  if (const std::string why = control::why_not_for(*curve.fits, fits); !why.empty()) refuse(why);
}

/// @throws std::runtime_error where the configuration does not load, or has other values
void check_values(const CalibrationFile& file, const KeyValues& values,
                  const std::optional<WrittenCalibration>& written) {
  const config::Config now = config::load(file.config);
  check_curve_in_use(now);
  if (!written) return;
  for (const auto& [key, value] : values) {
    const config::Option& option = *config::find_option(key);
    if (!(option.get(now) == option.get(written->after)))
      throw std::runtime_error(file.config.string() + " has another " + key + " than was written");
  }
}

}  // namespace

void check_curve_writable(const CalibrationFile& file, const fs::path& curve) {
  constexpr std::size_t kMostBytes = 1U << 20U;  // a picture of many markers has fewer
  for (const fs::path& one : {curve, fs::path(curve).replace_extension(".svg")}) {
    if (fs::exists(one) && !fs::is_regular_file(one))
      throw CannotWrite("cannot write " + one.string() + ": it is no file");
    try {
      check_replaceable(one, file.config, kMostBytes);
    } catch (const std::runtime_error& error) {
      throw CannotWrite(error.what());
    }
  }
}

fs::path curve_beside(const fs::path& config) {
  return fs::absolute(config).parent_path() / (config.stem().string() + ".z-curve.yaml");
}

KeyValues sweep_values(const fs::path& config, const nlohmann::json& result,
                       const fs::path& curve) {
  if (curve.empty()) return gain_by_curve(result);
  const bool beside = curve.parent_path() == fs::absolute(config).parent_path();
  return axial_values(result, beside ? curve.filename().string() : curve.string());
}

std::optional<KeptSweep> kept_sweep(const CalibrationFile& file, const nlohmann::json& result) {
  const std::string curve = curve_texts(result).curve;
  KeyValues values = axial_values(result, "");
  std::vector<std::string> keys;
  for (const auto& [key, value] : values) keys.push_back(key);
  std::erase_if(values, [](const auto& value) { return value.first == "axial.curve"; });
  if ((curve.empty() || content_of(config::load(file.config).axial.curve) == curve) &&
      is_configured(file, values))
    return KeptSweep{fmt::format("{} has {}these values already.", file.config.string(),
                                 curve.empty() ? "" : "this curve and "),
                     keys};
  const auto by_curve = result.find("gain_by_curve");
  if (by_curve == result.end() || by_curve->is_null()) return std::nullopt;
  const KeyValues gain = gain_by_curve(result);
  if (gain.front().second == values.back().second || !is_configured(file, gain))
    return std::nullopt;
  return KeptSweep{fmt::format("{} has the gain by the curve until now already: {} {}.",
                               file.config.string(), gain.front().first, gain.front().second),
                   {gain.front().first}};
}

void check_not_edited(const CalibrationFile& file, const config::Config& before,
                      const nlohmann::json& result, const fs::path& curve) {
  const config::Config now = config::load(file.config);
  std::vector<std::string> keys = {"axial.method", "axial.stage.gain"};
  for (const auto& [key, value] : sweep_values(file.config, result, curve))
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  std::vector<std::string> edited;
  for (const std::string& key : keys) {
    const config::Option& option = *config::find_option(key);
    const std::string was = to_yaml(option, option.get(before)),
                      is = to_yaml(option, option.get(now));
    if (was != is) edited.push_back(fmt::format("{} from {} to {}", key, was, is));
  }
  if (!edited.empty())
    throw std::runtime_error(
        fmt::format("{} was edited while the sweep was made, {}: nothing was written over it. "
                    "Reload driftd and sweep again, or take the change back",
                    file.config.string(), fmt::join(edited, ", ")));
  const auto swept_with = result.at("stage_gain").get<double>();
  if (now.axial_stage.gain != swept_with)
    throw std::runtime_error(
        fmt::format("{} has an axial.stage.gain of {:g}, and driftd made the sweep with {:g}: "
                    "nothing was written over it. Reload driftd and sweep again",
                    file.config.string(), now.axial_stage.gain, swept_with));
}

WrittenSweep write_sweep(const CalibrationFile& file, const config::Config& before,
                         const nlohmann::json& result, const fs::path& curve, bool how_to_load) {
  const CurveTexts texts = curve_texts(result);
  const bool has_curve = !curve.empty() && !texts.curve.empty();
  const KeyValues values = sweep_values(file.config, result, curve);
  check_not_edited(file, before, result, curve);
  Replaced replaced(file.config);
  try {
    if (has_curve) {
      replaced.replace(curve, texts.curve);
      replaced.replace(fs::path(curve).replace_extension(".svg"), texts.picture);
      check_curve(curve, texts.curve);
    }
    const auto written = write_calibration(file, values);
    if (written) replaced.add(file.path(), written->old);
    check_values(file, values, written);
    WrittenSweep said{replaced.lines(), has_curve || written};
    for (std::string& line : written_lines(file, values, written, how_to_load))
      said.lines.push_back(std::move(line));
    said.lines.push_back(fmt::format("Read back: {}the configuration loads with these values.",
                                     has_curve ? "the curve is the one of this sweep, and " : ""));
    return said;
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("{}; the files are as they were{}", error.what(), replaced.undo()));
  }
}

}  // namespace driftd::clients
