// SPDX-License-Identifier: MIT
#include "clients/common/calibration/same_instrument.hpp"

#include <arpa/inet.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "clients/common/calibration/stage_calibration.hpp"

namespace driftd::clients {
namespace {

constexpr double kSame = 1e-6;  // relative

bool is_ipv4(const std::string& text) {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

bool is_serial(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// The words of "vendor model serial at address" say that it is another one than `id`.
bool is_another(const std::string& id, const std::string& description) {
  std::istringstream in(description);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  if (words.empty() || std::ranges::find(words, id) != words.end()) return false;
  if (is_ipv4(id)) return is_ipv4(words.back());
  return is_serial(id);
}

/// Notes where the daemon's value is known and the file's is another.
class Differences {
 public:
  void compare(const char* key, double in_file, std::optional<double> running) {
    if (running && !same(in_file, *running, std::max(std::abs(in_file), std::abs(*running))))
      add(key, fmt::format("{:.7g}", in_file), fmt::format("{:.7g}", *running));
  }
  void compare(const char* key, const Matrix2& in_file, const std::optional<Matrix2>& running) {
    if (!running) return;
    double largest = 0;
    bool all_same = true;
    for (const Matrix2* m : {&in_file, &*running}) {
      for (const auto& row : *m) {
        for (const double element : row) largest = std::max(largest, std::abs(element));
      }
    }
    for (std::size_t i = 0; i < 4; ++i) {
      all_same = all_same && same(in_file[i / 2][i % 2], (*running)[i / 2][i % 2], largest);
    }
    if (!all_same) add(key, text(in_file), text(*running));
  }
  const std::string& list() const { return list_; }

 private:
  static bool same(double a, double b, double scale) { return std::abs(a - b) <= kSame * scale; }
  static std::string text(const Matrix2& m) {
    return fmt::format("[[{:.7g}, {:.7g}], [{:.7g}, {:.7g}]]", m[0][0], m[0][1], m[1][0], m[1][1]);
  }
  void add(const char* key, const std::string& in_file, const std::string& running) {
    list_ += fmt::format("{}{} is {} there and {} in driftd", list_.empty() ? "" : ", ", key,
                         in_file, running);
  }

  std::string list_;
};

}  // namespace

void check_same_camera(const config::Config& in_file, const nlohmann::json& status,
                       const std::filesystem::path& file) {
  if (in_file.camera.source == config::Source::Replay || in_file.camera.id.empty()) return;
  const nlohmann::json::json_pointer where("/camera/description");
  if (!status.contains(where) || !status.at(where).is_string()) return;
  const auto description = status.at(where).get<std::string>();
  if (!is_another(in_file.camera.id, description)) return;
  throw std::runtime_error(
      fmt::format("{} is not what driftd runs with: camera.id is {} there, and driftd's camera is "
                  "{}; nothing was written",
                  file.string(), in_file.camera.id, description));
}

void check_same_settings(const config::Config& in_file, const StageCalibration& calibration,
                         const std::filesystem::path& file) {
  const StageSettings& running = calibration.present;
  Differences differences;
  differences.compare("optics.pixel_size_nm", in_file.optics.pixel_size_nm,
                      calibration.configured_pixel_nm);
  differences.compare("stage.image_to_stage", in_file.stage.image_to_stage, running.image_to_stage);
  differences.compare("stage.delay_us", in_file.stage.delay_us, running.delay_us);
  differences.compare("stage.time_constant_us", in_file.stage.time_constant_us,
                      running.time_constant_us);
  differences.compare("stage.resonance_hz", in_file.stage.resonance_hz, running.resonance_hz);
  differences.compare("stage.damping", in_file.stage.damping, running.damping);
  differences.compare("control.integral", in_file.control.integral, running.integral);
  differences.compare("control.proportional", in_file.control.proportional, running.proportional);
  if (differences.list().empty()) return;
  throw std::runtime_error(fmt::format("{} is not what driftd runs with: {}; nothing was written",
                                       file.string(), differences.list()));
}

}  // namespace driftd::clients
