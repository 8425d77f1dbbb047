// SPDX-License-Identifier: MIT
// How long a frame takes from the simulated camera to pop(), and how long a reconnection takes,
// over GigE Vision on loopback. To stdout, JSON to --json.
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic.hpp"
#include "camera/sources.hpp"
#include "config/config.hpp"
#include "daemon/setup/compose.hpp"
#include "simulator/gige_camera.hpp"

using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace std::chrono_literals;
namespace sim = driftd::simulator;

namespace {

using nlohmann::json;

constexpr const char* kAddress = "127.0.42.1";

struct Settings {
  double rate_hz = 500;
  std::size_t frames = 20000;
  int side_px = 256;
  int priority = 0;  ///< SCHED_FIFO of the reader; its camera thread gets one more; 0: none
  std::string json;
};

/// Blank frames that remember when they were ready to be sent.
class TimedFrames final : public sim::FrameProducer {
 public:
  sim::MadeFrame make(const sim::FramePlan& plan, std::span<std::byte> image) override {
    if (!image.empty()) std::memset(image.data(), plan.frame_id & 0xFF, image.size());
    ready_ns_[plan.frame_id] = monotonic_ns();
    return {};
  }
  bool camera_away() override { return away; }
  /// @param id  unwrapped: block ids run from 1 to 65535
  std::int64_t ready_ns(std::uint64_t id) const { return ready_ns_[(id - 1) % 65535 + 1]; }

  std::atomic<bool> away{false};

 private:
  std::array<std::atomic<std::int64_t>, 65536> ready_ns_{};
};

void use_fifo(int priority) {
  const sched_param parameter{.sched_priority = priority};
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) != 0) {
    std::puts("SCHED_FIFO was refused; going on without");
  }
}

json percentiles(const char* name, std::vector<double> values_us) {
  std::sort(values_us.begin(), values_us.end());
  const auto at = [&](double share) {
    return values_us[static_cast<std::size_t>(share * static_cast<double>(values_us.size() - 1))];
  };
  std::printf("%-24s p50 %7.1f  p99 %7.1f  p99.9 %7.1f  max %8.1f us\n", name, at(0.5), at(0.99),
              at(0.999), at(1));
  return {{"p50", at(0.5)}, {"p99", at(0.99)}, {"p99_9", at(0.999)}, {"max", at(1)}};
}

json measure_latency(FrameSource& source, const TimedFrames& frames, std::size_t count) {
  std::vector<double> from_ready_us;
  std::vector<double> from_complete_us;
  from_ready_us.reserve(count);
  from_complete_us.reserve(count);
  Frame frame;
  while (from_ready_us.size() < count) {
    if (source.pop(100ms, frame) != PopStatus::Frame) continue;
    const std::int64_t now_ns = monotonic_ns();
    from_ready_us.push_back(static_cast<double>(now_ns - frames.ready_ns(frame.id)) * 1e-3);
    from_complete_us.push_back(static_cast<double>(now_ns - frame.arrival_ns) * 1e-3);
  }
  json result = {
      {"ready_to_popped_us", percentiles("ready to send -> popped", std::move(from_ready_us))},
      {"complete_to_popped_us", percentiles("complete -> popped", std::move(from_complete_us))}};
  const SourceCounters counters = source.counters();
  std::printf("frames %llu, superseded %llu, lost %llu, incomplete %llu\n",
              static_cast<unsigned long long>(counters.frames),
              static_cast<unsigned long long>(counters.superseded),
              static_cast<unsigned long long>(counters.lost),
              static_cast<unsigned long long>(counters.incomplete));
  result.update({{"frames", counters.frames},
                 {"superseded", counters.superseded},
                 {"lost", counters.lost},
                 {"incomplete", counters.incomplete}});
  return result;
}

double wait_ms(FrameSource& source, PopStatus wanted) {
  const std::int64_t from_ns = monotonic_ns();
  Frame frame;
  while (source.pop(20ms, frame) != wanted) {
  }
  return static_cast<double>(monotonic_ns() - from_ns) * 1e-6;
}

json measure_reconnection(FrameSource& source, TimedFrames& frames) {
  json rows = json::array();
  std::puts("away for   gone -> Disconnected   back -> first frame");
  for (const auto absence : {500ms, 500ms, 2000ms, 2000ms, 7000ms}) {
    frames.away = true;
    const double lost_ms = wait_ms(source, PopStatus::Disconnected);
    std::this_thread::sleep_for(absence);
    frames.away = false;
    const double back_ms = wait_ms(source, PopStatus::Frame);
    std::printf("%5lld ms %17.0f ms %18.0f ms\n", static_cast<long long>(absence.count()), lost_ms,
                back_ms);
    rows.push_back(
        {{"away_ms", absence.count()}, {"noticed_ms", lost_ms}, {"first_frame_ms", back_ms}});
  }
  return rows;
}

int run(const Settings& wanted) {
  sim::CameraModel model;
  model.width_px = model.height_px = wanted.side_px;
  TimedFrames frames;
  const sim::GigeCamera camera({.address = kAddress, .serial = "BENCH"}, model, frames);

  AravisSettings settings =
      driftd::daemon::aravis_settings(driftd::config::default_config().camera, {});
  settings.format = PixelFormat::Mono8;
  settings.id = kAddress;
  settings.frame_rate_hz = wanted.rate_hz;
  settings.exposure_us = 500;
  const int priority = wanted.priority;
  if (priority > 0) settings.on_stream_thread_start = [=] { use_fifo(priority + 1); };
  const auto source = make_aravis_source(settings);
  source->start();
  if (priority > 0) use_fifo(priority);
  json report = {{"rate_hz", wanted.rate_hz}, {"side_px", wanted.side_px}, {"priority", priority}};
  report["latency"] = measure_latency(*source, frames, wanted.frames);
  report["reconnection"] = measure_reconnection(*source, frames);
  if (!wanted.json.empty()) {
    std::ofstream file(wanted.json);
    file << report.dump(2) << '\n';
    if (!file.flush()) throw std::runtime_error("cannot write " + wanted.json);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("From the simulated camera to pop(), over GigE Vision on loopback");
  app.add_option("--rate", settings.rate_hz, "Frames a second")->check(CLI::Range(1, 5000));
  app.add_option("--frames", settings.frames, "Frames timed")->check(CLI::Range(1, 100000000));
  app.add_option("--side", settings.side_px, "Side of the image, px")->check(CLI::Range(16, 4096));
  app.add_option("--priority", settings.priority, "SCHED_FIFO priority; 0: none")
      ->check(CLI::Range(0, 97));
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftd_camera_bench: %s\n", error.what());
    return 1;
  }
}
