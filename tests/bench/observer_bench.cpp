// SPDX-License-Identifier: MIT
// What the observer costs the loop: a frame of both axes, from the drift to the command and to what
// the stage monitor is told, by how many lines are followed and which stage is commanded.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "control/law/observer/observer.hpp"
#include "unit/control/observer_world.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kPeriodNs = 2'000'000, kLatencyNs = 1'500'000;
constexpr double kNoiseNm2 = 0.1;

DisturbanceModel model_of(std::size_t lines, bool tracks) {
  DisturbanceModel model{.walk_nm2_per_s = 1, .noise_nm2 = kNoiseNm2};
  model.line_count = lines;
  model.tracks = tracks;
  for (std::size_t i = 0; i < lines; ++i)
    model.lines[i] = {.frequency_hz = 3 + 17.3 * static_cast<double>(i),
                      .fade_per_s = 0.3,
                      .kick_nm2_per_s = 0.05};
  return model;
}

struct Timed {
  std::vector<double> us;  ///< of each frame, once both axes are tuned; sorted
  double left_nm = 0;      ///< rms of the sample's place meanwhile: the lock is one
};

/// A sample that moves as the model says, and a stage that is as it is described.
/// @param cold  other work has the caches between two frames
Timed time_frames(const ObserverSettings& settings, const DisturbanceModel& model,
                  std::size_t frames, bool cold) {
  std::vector<unsigned char> others(cold ? std::size_t{8} << 20 : 0);
  Observer observer(settings);
  const StagePreview preview(preview_of(settings));
  const GainScheduler scheduler(preview_of(settings));
  StageModel stage(settings.stage);
  test::RandomMotion x(model, 1), y(model, 2);
  Timed timed;
  timed.us.reserve(frames);
  for (std::int64_t k = 1; timed.us.size() < frames; ++k) {
    const std::int64_t taken_ns = k * kPeriodNs;
    const Vec2 stage_nm = stage.at(taken_ns);
    const Vec2 place_nm = {x.advance() + stage_nm.x, y.advance() + stage_nm.y};
    const Sight sight{.moved_nm = {x.measured(place_nm.x), y.measured(place_nm.y)},
                      .variance_nm2 = {kNoiseNm2, kNoiseNm2},
                      .taken_ns = taken_ns,
                      .now_ns = taken_ns + kLatencyNs,
                      .sure = true,
                      .fit_noise_nm2 = {kNoiseNm2, kNoiseNm2}};
    for (std::size_t i = 0; i < others.size(); i += 64) ++others[i];
    const auto begin = std::chrono::steady_clock::now();
    const Vec2 command_nm = observer.see(sight);
    observer.told(command_nm, sight.now_ns);
    const auto expectation = observer.expectation();
    const auto end = std::chrono::steady_clock::now();
    stage.command(command_nm, sight.now_ns);
    if (observer.is_tuned(0) && observer.is_tuned(1)) {
      if (!expectation) throw std::runtime_error("the stage monitor is told nothing");
      timed.us.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
      timed.left_nm += place_nm.x * place_nm.x / static_cast<double>(frames);
      continue;
    }
    for (std::size_t axis = 0; k % 8 == 0 && axis < kAxes; ++axis) {
      Tuning tuning;
      tuning.axis = axis;
      tuning.epoch = observer.epoch();
      tuning.taken_ns = observer.frame().taken_ns;
      tuning.filter = DisturbanceFilter(model);
      tuning.gains = scheduler.schedule(preview, model);
      tuning.usual_variance_nm2 = kNoiseNm2;
      observer.offer(tuning);
    }
    if (k > 1000) throw std::runtime_error("no tuning took over");
  }
  timed.left_nm = std::sqrt(timed.left_nm);
  if (!(timed.left_nm < 2)) throw std::runtime_error("the sample is not held");
  std::sort(timed.us.begin(), timed.us.end());
  return timed;
}

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

void run(std::size_t frames, bool cold) {
  const ObserverSettings fast{
      .period_s = test::kPeriodS,
      .stage = {.image_to_stage = {}, .delay_us = 2500, .time_constant_us = 1500}};
  ObserverSettings slow = fast;
  slow.stage.delay_us = 9000;
  slow.stage.resonance_hz = 7.85;
  slow.stage.damping = 0.7;
  std::printf("| stage | lines | tracked | p50 us | p99 | p99.9 | left nm |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [name, settings] :
       {std::pair{"first order, 1.5 ms", fast}, {"second order, 7.85 Hz", slow}})
    for (const std::size_t lines : {std::size_t{0}, std::size_t{3}, kMaxLines})
      for (const bool tracks : {false, true}) {
        if (lines == 0 && tracks) continue;
        const Timed timed = time_frames(settings, model_of(lines, tracks), frames, cold);
        std::printf("| %s | %zu | %s | %.2f | %.2f | %.2f | %.2f |\n", name, lines,
                    tracks ? "yes" : "no", percentile(timed.us, 0.5), percentile(timed.us, 0.99),
                    percentile(timed.us, 0.999), timed.left_nm);
      }
}

}  // namespace
}  // namespace driftd::control

int main(int argc, char** argv) try {
  CLI::App app("What the observer costs the loop a frame");
  std::size_t frames = 100'000;
  app.add_option("--frames", frames)->check(CLI::Range(1000, 10'000'000))->capture_default_str();
  bool cold = false;
  app.add_flag("--cold", cold, "caches are lost between two frames, as in a loop that sleeps");
  CLI11_PARSE(app, argc, argv);
  driftd::control::run(frames, cold);
} catch (const std::exception& error) {
  std::fprintf(stderr, "driftd_observer_bench: %s\n", error.what());
  return 1;
}
