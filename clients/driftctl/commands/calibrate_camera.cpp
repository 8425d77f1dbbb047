// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/calibrate_camera.hpp"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/counted.hpp"
#include "base/monotonic.hpp"
#include "base/process/option_range.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/calibration/written_words.hpp"
#include "clients/driftctl/camera/camera_report.hpp"
#include "clients/driftctl/camera/photon_transfer.hpp"
#include "clients/driftctl/commands/calibration_run.hpp"
#include "clients/driftctl/commands/question.hpp"
#include "clients/driftctl/commands/write_calibration.hpp"

namespace driftd::clients {
namespace {

constexpr int kDefaultFrames = 512;
/// Each sixteen take up to 2 MB until they are evaluated.
constexpr int kMostFrames = 10'000;

struct Options {
  std::optional<int> frames;  ///< empty: 512, or all that come in `seconds`
  double seconds = 0;         ///< 0: until there are `frames`
  bool dark = false, dark_only = false, write = false, yes = false;
  std::filesystem::path dark_result, maps;
};

/// Frames of one light, and what the daemon says of the camera.
class Series {
 public:
  Series(const CameraCommandSetUp& set_up, const Options& options, StopSignal& stop)
      : set_up_(set_up), options_(options), stop_(stop) {}

  /// Ends early with Ctrl-C.
  void fetch(const char* what) {
    statistics_.reset();
    noise_.reset();
    const std::int64_t start_ns = monotonic_ns();
    while (!over(start_ns)) {
      const Reply reply = set_up_.request({{"command", "snapshot"}});
      add(reply.body.at("frame"), reply.attachment);
      show(what, start_ns);
    }
    progress_.end();
    if (!statistics_) throw CannotCalibrate("there were no frames");
  }

  const FrameStatistics& statistics() const { return *statistics_; }
  const NoiseBlocks& noise() const { return *noise_; }

 private:
  void show(const char* what, std::int64_t start_ns) {
    if (statistics_->frames() % 8 != 0) return;
    const double of_frames = static_cast<double>(statistics_->frames()) / most();
    const double of_time = options_.seconds > 0 ? static_cast<double>(monotonic_ns() - start_ns) *
                                                      1e-9 / options_.seconds
                                                : 0;
    progress_.show(what, std::min(1.0, std::max(of_frames, of_time)),
                   counted(statistics_->frames(), "frame"));
  }
  int most() const {
    return options_.frames.value_or(options_.seconds > 0 ? kMostFrames : kDefaultFrames);
  }

  bool over(std::int64_t start_ns) const {
    if (stop_.raised()) return true;
    const bool timed = options_.seconds > 0;
    if (timed && static_cast<double>(monotonic_ns() - start_ns) >= options_.seconds * 1e9) {
      return true;
    }
    return statistics_ && statistics_->frames() >= most();
  }

  void add(const nlohmann::json& frame, const std::string& bytes) {
    const FrameShape shape{frame.at("width_px").get<int>(), frame.at("height_px").get<int>(),
                           frame.at("bits").get<int>()};
    const auto id = frame.at("frame_id").get<std::uint64_t>();
    if (bytes.size() != 2 * shape.pixels() || shape.pixels() == 0) {
      throw CannotCalibrate("a frame came with another number of pixels than it said");
    }
    if (!statistics_) {
      statistics_ = std::make_unique<FrameStatistics>(shape);
      noise_ = std::make_unique<NoiseBlocks>(shape);
    } else if (statistics_->shape() != shape) {
      throw CannotCalibrate("the frames' size or format changed meanwhile: measure again");
    } else if (id == last_id_) {
      return;  // one frame answers all who wait for one
    } else if (id < last_id_) {
      throw CannotCalibrate("driftd or the camera started anew meanwhile: measure again");
    }
    last_id_ = id;
    pixels_.resize(shape.pixels());
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
      pixels_[i] = static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[2 * i]) |
                                              static_cast<unsigned char>(bytes[2 * i + 1]) << 8);
    }
    statistics_->add(pixels_);
    noise_->add(pixels_);
  }

  const CameraCommandSetUp& set_up_;
  const Options& options_;
  StopSignal& stop_;
  std::unique_ptr<FrameStatistics> statistics_;
  std::unique_ptr<NoiseBlocks> noise_;
  std::vector<std::uint16_t> pixels_;
  std::uint64_t last_id_ = 0;
  ProgressLine progress_;
};

/// Waits for a line on standard input. False: Ctrl-C, or the input ended.
bool wait_for_enter(const char* what, StopSignal& stop) {
  fmt::print(stderr, "{}, then press Enter. ", what);
  std::fflush(stderr);
  while (!stop.raised()) {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (poll(&in, 1, 100) <= 0) continue;
    char c = 0;
    while (read(STDIN_FILENO, &c, 1) == 1) {
      if (c == '\n') return true;
    }
    break;
  }
  fmt::print(stderr, "\n");
  return false;
}

/// What the camera has now; nothing of a daemon that does not tell.
void take_exposure(CameraReport& report, const CameraCommandSetUp& set_up) {
  try {
    const nlohmann::json now = set_up.request({{"command", "exposure"}}).body.at("exposure");
    const auto number = [&now](const char* key) {
      return now.at(key).is_number() ? std::optional(now.at(key).get<double>()) : std::nullopt;
    };
    report.exposure_us = number("exposure_us");
    report.gain_db = number("gain_db");
  } catch (const Refused&) {  // one of before
    report.exposure_us = report.gain_db = std::nullopt;
  }
}

/// @throws CannotCalibrate where the frames are not all of one exposure and gain
void check_exposure(const CameraReport& report, const CameraCommandSetUp& set_up) {
  CameraReport now;
  take_exposure(now, set_up);
  if (now.exposure_us != report.exposure_us || now.gain_db != report.gain_db)
    throw CannotCalibrate("the camera's exposure or gain changed meanwhile: measure again");
}

/// Names the camera in the report, and checks what can be known of the file before measuring.
/// @returns the file to write
std::optional<CalibrationFile> begin(CameraReport& report, const CameraCommandSetUp& set_up,
                                     const Options& options) {
  const nlohmann::json status = set_up.request({{"command", "status"}}).body.at("status");
  const nlohmann::json& camera = status.at("camera");
  if (camera.at("description").is_null() || camera.at("pixel_format").is_null()) {
    const std::string problem = camera.value("problem", "");
    throw CannotCalibrate("no camera is connected to driftd" +
                          (problem.empty() ? "" : ": " + problem));
  }
  camera.at("description").get_to(report.camera);
  camera.at("pixel_format").get_to(report.pixel_format);
  if (set_up.config().empty()) return std::nullopt;
  report.configured = config::load(set_up.config()).camera;
  if (!options.write) return std::nullopt;
  return checked_calibration_file(set_up.config(), kCameraFile, "driftctl calibrate camera --write",
                                  status);
}

void measure(CameraReport& report, const CameraCommandSetUp& set_up, const Options& options,
             StopSignal& stop) {
  Series series(set_up, options, stop);
  const bool dark_now = options.dark || options.dark_only;
  if (options.dark && !wait_for_enter("Close the shutter or switch the light off", stop)) {
    throw std::runtime_error("ended before anything was measured");
  }
  if (dark_now) {
    series.fetch("dark");
    report.dark = measure_dark(series.statistics());
    check_exposure(report, set_up);
    if (!options.dark_result.empty()) write_dark(report, options.dark_result);
  } else if (!options.dark_result.empty()) {
    report.dark = read_dark(options.dark_result, report);
  }
  if (options.dark && !wait_for_enter("Open it, with the markers in focus and still", stop)) {
    throw std::runtime_error("ended before the frames with light");
  }
  if (!options.dark_only) {
    series.fetch("light");
    report.light =
        measure_light(series.statistics(), series.noise(), report.dark ? &*report.dark : nullptr);
  }
  if (!options.maps.empty()) write_maps(series.statistics(), options.maps);
}

void calibrate(const CameraCommandSetUp& set_up, const Options& options) {
  StopSignal stop;
  CameraReport report;
  const auto file = begin(report, set_up, options);
  take_exposure(report, set_up);
  measure(report, set_up, options, stop);
  check_exposure(report, set_up);
  if (set_up.json()) {
    fmt::print("{}\n", to_json(report).dump());
  } else {
    for (const std::string& line : to_lines(report)) fmt::print("{}\n", line);
  }
  std::fflush(stdout);
  if (!file) return;
  if (stop.raised()) throw std::runtime_error("interrupted; nothing was written");
  if (const std::string why = why_not_written(report); !why.empty())
    throw std::runtime_error(why + "; nothing was written");
  write_and_tell(*file, proposal(report), !options.yes && is_answerable(), stop);
}

std::string check_npy_name(const std::string& file) {
  if (std::filesystem::path(file).extension() == ".npy") return {};
  return "'" + file + "' does not end in .npy, and a NumPy array is what is written";
}

}  // namespace

void add_calibrate_camera(CLI::App& calibrate_command, CameraCommandSetUp set_up) {
  const auto options = std::make_shared<Options>();
  CLI::App* camera = calibrate_command.add_subcommand(
      "camera",
      "Measure the camera's gain, offset, read noise and saturation from its frames. Moves nothing "
      "and asks nothing of the camera. Without a dark series, offset and read noise stay open");
  camera
      ->add_option("--frames", options->frames,
                   "How many, of light and of dark; without: 512, or with --seconds 10000")
      ->check(in_range(kFewestFrames, kMostFrames, "NUMBER"));
  camera->add_option("--seconds", options->seconds, "All that come in that time, up to --frames")
      ->check(in_range(0.1, 3600, "POSITIVE"));
  auto* dark = camera->add_flag("--dark", options->dark,
                                "A dark series first: asks to close the shutter and to open it "
                                "again, and waits for Enter");
  camera
      ->add_flag("--dark-only", options->dark_only,
                 "It is dark now: measure that and end, without a question")
      ->excludes(dark);
  camera->add_option(
      "--dark-result", options->dark_result,
      "File of the dark series: written with --dark and --dark-only, read otherwise");
  camera
      ->add_option(
          "--maps", options->maps,
          "Write mean and variance of each pixel there (.npy, float32, 2 x height x width)")
      ->check(CLI::Validator(check_npy_name, ""));
  camera->add_flag(
      "--write", options->write,
      "Put the values proposed into FILE.d/camera-calibration.yaml, which driftd reads "
      "over FILE of --config; the one before is kept");
  camera->add_flag("--yes", options->yes, "Ask nothing before that");
  camera->callback([options, set_up = std::move(set_up)] {
    if (options->write && set_up.config().empty()) {
      throw CLI::ValidationError("--write", "needs --config FILE");
    }
    calibrate(set_up, *options);
  });
}

}  // namespace driftd::clients
