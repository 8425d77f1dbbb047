// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "clients/driftctl/camera/camera_report.hpp"

namespace driftd::clients {
namespace {

std::runtime_error cannot(const char* what, const std::filesystem::path& file,
                          const std::string& why) {
  return std::runtime_error(fmt::format("cannot {} {}: {}", what, file.string(), why));
}

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out << bytes << std::flush;
  if (!out) throw cannot("write", file, std::generic_category().message(errno));
}

/// A camera by its name and serial number: its address may be another tomorrow.
std::string without_address(const std::string& camera) {
  return camera.substr(0, camera.rfind(" at "));
}

}  // namespace

void write_dark(const CameraReport& report, const std::filesystem::path& file) {
  CameraReport alone = report;
  alone.light.reset();
  const nlohmann::json whole = to_json(alone);
  const nlohmann::json kept{
      {"driftctl", "dark series"},           {"camera", report.camera},
      {"pixel_format", report.pixel_format}, {"exposure_us", whole.at("exposure_us")},
      {"gain_db", whole.at("gain_db")},      {"dark", whole.at("dark")}};
  write_file(file, kept.dump(2) + "\n");
}

/// What another exposure or gain makes of it is not known.
void check_same(const nlohmann::json& kept, const CameraReport& now,
                const std::filesystem::path& file) {
  constexpr double kSameExposure = 0.01;  // of it: the dark current of so much is nothing
  const auto differs = [&](const char* key, const std::optional<double>& value, double most) {
    const auto before = kept.find(key);
    return value && before != kept.end() && before->is_number() &&
           std::abs(before->get<double>() - *value) > most;
  };
  if (!differs("gain_db", now.gain_db, kSameGainDb) &&
      !differs("exposure_us", now.exposure_us, kSameExposure * now.exposure_us.value_or(0)))
    return;
  const auto text = [](const nlohmann::json& value, const char* unit) {
    return value.is_number() ? fmt::format("{:.6g} {}", value.get<double>(), unit)
                             : std::string("an unknown value");
  };
  throw CannotCalibrate(fmt::format(
      "{} is of {} of exposure and a gain of {}; the camera has {} and {} now: measure the dark "
      "anew",
      file.string(), text(kept.value("exposure_us", nlohmann::json()), "us"),
      text(kept.value("gain_db", nlohmann::json()), "dB"),
      text(now.exposure_us ? nlohmann::json(*now.exposure_us) : nlohmann::json(), "us"),
      text(now.gain_db ? nlohmann::json(*now.gain_db) : nlohmann::json(), "dB")));
}

DarkResult read_dark(const std::filesystem::path& file, const CameraReport& now) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw cannot("read", file, std::generic_category().message(errno));
  const nlohmann::json kept = nlohmann::json::parse(in, nullptr, false);
  if (!kept.is_object() || kept.value("driftctl", "") != "dark series") {
    throw cannot("read", file, "it is no dark series that driftctl calibrate camera kept");
  }
  DarkResult dark;
  std::string kept_camera;
  std::string kept_format;
  try {
    kept.at("camera").get_to(kept_camera);
    kept.at("pixel_format").get_to(kept_format);
    const nlohmann::json& d = kept.at("dark");
    dark.shape = {d.at("width_px").get<int>(), d.at("height_px").get<int>(),
                  d.at("bits").get<int>()};
    d.at("frames").get_to(dark.frames);
    d.at("step_adu").get_to(dark.step_adu);
    dark.offset_adu = {d.at("offset_adu").get<double>(), d.at("offset_sd_adu").get<double>()};
    if (!d.at("read_noise_adu").is_null()) {
      dark.read_noise_adu =
          Estimate{d.at("read_noise_adu").get<double>(), d.at("read_noise_sd_adu").get<double>()};
    }
    d.at("most_read_noise_adu").get_to(dark.most_read_noise_adu);
    d.at("pattern_adu").get_to(dark.pattern_adu);
    d.at("clipped_share").get_to(dark.clipped_share);
    d.at("only_bound").get_to(dark.only_bound);
    d.at("hot_pixels").get_to(dark.hot_pixels);
    d.at("warnings").get_to(dark.warnings);
  } catch (const nlohmann::json::exception& error) {
    throw cannot("read", file, error.what());
  }
  if (without_address(kept_camera) != without_address(now.camera) ||
      kept_format != now.pixel_format) {
    throw CannotCalibrate(
        fmt::format("{} is of {}, {}; the camera now is {}, {}: measure the dark "
                    "anew",
                    file.string(), kept_camera, kept_format, now.camera, now.pixel_format));
  }
  check_same(kept, now, file);
  return dark;
}

void write_maps(const FrameStatistics& statistics, const std::filesystem::path& file) {
  static_assert(std::endian::native == std::endian::little, "written as it is");
  const FrameShape& shape = statistics.shape();
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': (2, {}, {}), }}",
                  shape.height_px, shape.width_px);
  // Magic, version 1.0 and two bytes of length; with the header a multiple of 64 bytes.
  constexpr std::size_t kBefore = 10;
  header.resize((kBefore + header.size() + 1 + 63) / 64 * 64 - kBefore - 1, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY\x01";
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  std::vector<float> planes(2 * shape.pixels());
  for (std::size_t i = 0; i < shape.pixels(); ++i) {
    planes[i] = static_cast<float>(statistics.mean(i));
    planes[shape.pixels() + i] = static_cast<float>(statistics.variance(i));
  }
  bytes.append(reinterpret_cast<const char*>(planes.data()), planes.size() * sizeof(float));
  write_file(file, bytes);
}

}  // namespace driftd::clients
