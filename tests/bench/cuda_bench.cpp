// SPDX-License-Identifier: MIT
// Speed and accuracy of the CUDA fitter on the workload of Leutenegger & Weber 2021 (400 signal, 40
// background counts, u16, their stop criteria), beside the CPU twin, and the bus bandwidth that
// bounds it. A table to stdout, JSON to --json; tests/bench/plot_cuda.py draws it. Without a device
// it says so and ends well.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cuda_accuracy.hpp"
#include "cuda_live.hpp"
#include "cuda_timing.hpp"
#include "fitter/cuda_fitter.hpp"
#include "support/paper_accuracy.hpp"

namespace driftd {
namespace {

using namespace bench;
using nlohmann::json;
using Fits = std::vector<fitter::Localization>;
using Starts = std::vector<fitter::Start>;
using Spots = test::SpotImages<std::uint16_t>;

struct Settings {
  std::vector<std::string> sections = {"bus",        "live",  "batch",    "sweep",
                                       "estimators", "swarm", "accuracy", "devices"};
  std::vector<int> sides = {4, 5, 6, 7, 8, 9, 11, 13, 16, 20, 25, 32};
  std::vector<std::size_t> batches = {10, 100, 1000, 10000, 100000, 1000000};
  std::vector<std::string> places = {"pinned", "device"};
  std::vector<int> live_sides = {9, 16, 32};
  std::vector<int> estimator_sides = {9, 16};
  int streams = fitter::CudaBatchOptions().streams;
  std::size_t chunk_kib = fitter::CudaBatchOptions().chunk_bytes >> 10;
  int frames = 20000;
  std::string json;
};

void require(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorString(result));
}

/// An array in device memory or in pinned host memory.
template <class T>
class Array {
 public:
  Array(bool on_device, std::size_t count) : on_device_(on_device) {
    require(on_device ? cudaMalloc(&memory_, count * sizeof(T))
                      : cudaMallocHost(&memory_, count * sizeof(T)));
  }
  ~Array() { on_device_ ? cudaFree(memory_) : cudaFreeHost(memory_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* get() const { return static_cast<T*>(memory_); }

 private:
  bool on_device_;
  void* memory_ = nullptr;
};

/// Start values that know nothing of the spot but where the ROI was cut.
fitter::Start given_start(int side) {
  const float centre = static_cast<float>(side - 1) / 2;
  return {centre, centre, 1.5f, 1.5f};
}

json measure_bus() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const Array<char> host(false, kBytes), back(false, kBytes), device(true, kBytes),
      other(true, kBytes);
  cudaStream_t in, out;
  require(cudaStreamCreate(&in));
  require(cudaStreamCreate(&out));
  const auto gb_per_s = [&](bool to_device, bool to_host) {
    const Timing t = repeat([&] {
      if (to_device)
        require(cudaMemcpyAsync(device.get(), host.get(), kBytes, cudaMemcpyHostToDevice, in));
      if (to_host)
        require(cudaMemcpyAsync(back.get(), other.get(), kBytes, cudaMemcpyDeviceToHost, out));
      require(cudaStreamSynchronize(in));
      require(cudaStreamSynchronize(out));
    });
    return static_cast<double>(kBytes) / t.p50 / 1e3;
  };
  json result = {{"to_device_gb_per_s", gb_per_s(true, false)},
                 {"to_host_gb_per_s", gb_per_s(false, true)},
                 {"each_of_both_gb_per_s", gb_per_s(true, true)}};
  cudaStreamDestroy(in);
  cudaStreamDestroy(out);
  std::printf("bus, GB/s: to the device %.1f, to the host %.1f, each of both at once %.1f\n",
              result["to_device_gb_per_s"].get<double>(), result["to_host_gb_per_s"].get<double>(),
              result["each_of_both_gb_per_s"].get<double>());
  return result;
}

/// A batch of any size from a smaller number of different spots, in pinned or device memory.
struct Workload {
  Workload(int side_px, std::size_t fits, bool on_device)
      : side(side_px),
        count(fits),
        pixels(on_device, count * roi()),
        starts(on_device, count),
        results(on_device, count) {
    constexpr std::size_t kDifferent = 65536;
    const Spots spots = simulate(side, kSignal, kBackground, std::min(count, kDifferent), 20210311);
    const Starts given(std::min(count, kDifferent), given_start(side));
    for (std::size_t i = 0; i < count; i += kDifferent) {
      const std::size_t n = std::min(kDifferent, count - i);
      require(cudaMemcpy(pixels.get() + i * roi(), spots.pixels.data(), n * roi() * 2,
                         cudaMemcpyDefault));
      require(
          cudaMemcpy(starts.get() + i, given.data(), n * sizeof(fitter::Start), cudaMemcpyDefault));
    }
  }

  std::size_t roi() const {
    const auto size = static_cast<std::size_t>(side);
    return size * size;
  }
  fitter::Batch batch(std::size_t fits) const {
    return {pixels.get(), fitter::PixelType::U16, side, fits, starts.get()};
  }
  void fit(fitter::CudaBatchFitter& cuda, std::size_t fits) const {
    cuda.fit(batch(fits), test::paper_options(side), {results.get(), fits});
  }

  int side;
  std::size_t count;
  Array<std::uint16_t> pixels;
  Array<fitter::Start> starts;
  Array<fitter::Localization> results;
};

json measure_batch(const Settings& settings, const json& bus) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  const auto cuda =
      fitter::make_cuda_batch_fitter({{0}, settings.streams, settings.chunk_kib << 10});
  json rows;
  std::printf("%-8s %4s %14s %12s %10s   (1,000,000 fits a call, or 1 GiB)\n", "batch", "side",
              "where", "M fits/s", "of the bus");
  for (const int side : settings.sides) {
    const std::size_t fits =
        std::min<std::size_t>(1000000, kMostBytes / static_cast<std::size_t>(2 * side * side));
    for (const std::string& place : settings.places) {
      const bool on_device = place == "device";
      const Workload work(side, fits, on_device);
      const Timing t = repeat([&] { work.fit(*cuda, fits); }, 0.2);
      const double rate = static_cast<double>(fits) / t.p50;
      json row = {{"side_px", side},
                  {"where", place},
                  {"fits", fits},
                  {"us", to_json(t)},
                  {"fits_per_s", 1e6 * rate}};
      double share = 0;
      if (!on_device && bus.is_object()) {
        const double limit = 1e3 * bus["to_device_gb_per_s"].get<double>() /
                             static_cast<double>(work.roi() * 2 + sizeof(fitter::Start));
        share = rate / limit;
        row["bus_limit_fits_per_s"] = 1e6 * limit;
      }
      std::printf("%-8s %4d %14s %12.1f %9.0f%%\n", "", side, place.c_str(), rate, 100 * share);
      std::fflush(stdout);
      rows.push_back(row);
    }
  }
  return rows;
}

json measure_sweep(const Settings& settings) {
  const auto cuda = fitter::make_cuda_batch_fitter();
  json rows;
  std::printf("%-8s %4s %9s %12s %12s %12s %10s   (us a call, median)\n", "sweep", "side", "fits",
              "pinned", "device", "cpu 1 core", "cpu, all");
  for (const int side : settings.sides) {
    const std::size_t most = *std::max_element(settings.batches.begin(), settings.batches.end());
    const Workload pinned(side, most, false), device(side, most, true);
    for (const std::size_t fits : settings.batches) {
      const Timing p = repeat([&] { pinned.fit(*cuda, fits); }, 0.03);
      const Timing d = repeat([&] { device.fit(*cuda, fits); }, 0.03);
      json row = {
          {"side_px", side}, {"fits", fits}, {"pinned_us", to_json(p)}, {"device_us", to_json(d)}};
      double one = 0, all = 0;
      if (fits <= 10000) {
        Fits results(fits);
        const auto cpu = [&](int threads) {
          return repeat(
              [&] {
                fitter::fit_batch_cpu(pinned.batch(fits), test::paper_options(side), results,
                                      threads);
              },
              0.02);
        };
        const Timing c = cpu(1);
        row["cpu_us"] = to_json(c);
        one = c.p50;
        if (fits >= 1000) {
          const Timing a = cpu(0);
          row["cpu_all_us"] = to_json(a);
          all = a.p50;
        }
      }
      std::printf("%-8s %4d %9zu %12.1f %12.1f %12.1f %10.1f\n", "", side, fits, p.p50, d.p50, one,
                  all);
      std::fflush(stdout);
      rows.push_back(row);
    }
  }
  return rows;
}

json measure_devices() {
  constexpr std::size_t kFits = 4000000;
  constexpr int kCalls = 20;
  const int present = fitter::cuda_device_count();
  json rows;
  std::printf("%-8s %8s %14s %12s %8s\n", "devices", "side", "where", "M fits/s", "times");
  for (const int side : {9, 16}) {
    for (const bool on_device : {true, false}) {
      double one = 0;
      for (int devices = 1; devices <= present; devices *= 2) {
        double us = 0;
        if (on_device) {  // each its own, all at once
          std::vector<std::jthread> threads;
          threads.reserve(static_cast<std::size_t>(devices));
          std::vector<double> took(static_cast<std::size_t>(devices));
          std::atomic<int> ready{0};
          for (int device = 0; device < devices; ++device) {
            threads.emplace_back([&, device] {
              require(cudaSetDevice(device));
              const Workload work(side, kFits, true);
              const auto cuda = fitter::make_cuda_batch_fitter({{device}});
              work.fit(*cuda, kFits);
              ++ready;
              while (ready < devices) std::this_thread::yield();
              const auto start = Clock::now();
              for (int i = 0; i < kCalls; ++i) work.fit(*cuda, kFits);
              took[static_cast<std::size_t>(device)] = elapsed_us(start) / kCalls / devices;
            });
          }
          threads.clear();
          us = *std::max_element(took.begin(), took.end());
        } else {
          fitter::CudaBatchOptions all;
          all.devices.resize(static_cast<std::size_t>(devices));
          std::iota(all.devices.begin(), all.devices.end(), 0);
          const Workload work(side, kFits, false);
          const auto cuda = fitter::make_cuda_batch_fitter(all);
          us = repeat([&] { work.fit(*cuda, kFits); }, 0.2).p50;
        }
        const double rate = static_cast<double>(kFits) / us;
        if (devices == 1) one = rate;
        std::printf("%-8d %8d %14s %12.1f %8.2f\n", devices, side, on_device ? "device" : "pinned",
                    rate, rate / one);
        rows.push_back({{"devices", devices},
                        {"side_px", side},
                        {"where", on_device ? "device" : "pinned"},
                        {"fits_per_s", 1e6 * rate},
                        {"times", rate / one}});
      }
    }
  }
  return rows;
}

/// A million fits of every model and estimator, and what one CPU core makes of some of them.
json measure_estimators(const Settings& settings) {
  constexpr std::size_t kFits = 1000000, kOnCpu = 20000;
  const auto cuda = fitter::make_cuda_batch_fitter();
  json rows;
  std::printf("%-11s %-14s %4s %14s %14s %12s %6s   (M fits/s, 1,000,000 a call)\n", "model",
              "estimator", "side", "in the device", "pinned", "cpu, 1 core", "iter");
  for (const int side : settings.estimator_sides) {
    const Workload device(side, kFits, true), pinned(side, kFits, false);
    const std::vector<float> ones(kFits * device.roi(), 1.0f);
    const Array<float> on_device(true, ones.size()), on_host(false, ones.size());
    require(
        cudaMemcpy(on_device.get(), ones.data(), ones.size() * sizeof(float), cudaMemcpyDefault));
    std::copy(ones.begin(), ones.end(), on_host.get());
    for (const Kind& kind : all_kinds()) {
      const fitter::FitOptions options = options_of(kind, side);
      const bool weighted = kind.estimator == fitter::Estimator::WeightedLeastSquares;
      const auto rate = [&](const Workload& work, const float* variances) {
        fitter::Batch batch = work.batch(kFits);
        batch.variances = weighted ? variances : nullptr;
        const Timing t = repeat(
            [&] {
              cuda->fit(batch, options, {work.results.get(), kFits});
            },
            0.2);
        return static_cast<double>(kFits) / t.p50;
      };
      const double resident = rate(device, on_device.get());
      const double bus = rate(pinned, on_host.get());
      fitter::Batch some = pinned.batch(kOnCpu);
      some.variances = weighted ? on_host.get() : nullptr;
      Fits fits(kOnCpu);
      const Timing t = repeat([&] { fitter::fit_batch_cpu(some, options, fits); }, 0.1);
      const double cpu = static_cast<double>(kOnCpu) / t.p50;
      double iterations = 0;
      for (const auto& fit : fits) iterations += fit.iterations / static_cast<double>(kOnCpu);
      std::printf("%-11s %-14s %4d %14.1f %14.1f %12.3f %6.2f\n", kind.model_name,
                  kind.estimator_name, side, resident, bus, cpu, iterations);
      std::fflush(stdout);
      rows.push_back({{"model", kind.model_name},
                      {"estimator", kind.estimator_name},
                      {"side_px", side},
                      {"device_fits_per_s", 1e6 * resident},
                      {"pinned_fits_per_s", 1e6 * bus},
                      {"cpu_core_fits_per_s", 1e6 * cpu},
                      {"mean_iterations", iterations}});
    }
  }
  return rows;
}

/// PSFIT's case: 256 particles, 30 iterations, 11x11; polished. On 1, 2, 4 ... devices.
json measure_swarm() {
  constexpr int kSide = 11;
  constexpr std::size_t kPaper = 50000, kMillion = 1000000, kOnCpu = 1000;
  const int present = fitter::cuda_device_count();
  json rows;
  std::printf("%-11s %8s %9s %14s %10s %8s\n", "swarm", "devices", "images", "where", "M fits/s",
              "times");
  for (const Kind& kind : all_kinds()) {
    if (kind.estimator != fitter::Estimator::ImplicitLeastSquares) continue;
    const fitter::FitOptions options = options_of(kind, kSide);
    const auto report = [&](int devices, std::size_t images, const char* where, double rate,
                            double one) {
      std::printf("%-11s %8d %9zu %14s %10.3f %8.2f\n", kind.model_name, devices, images, where,
                  rate, rate / one);
      std::fflush(stdout);
      rows.push_back({{"model", kind.model_name},
                      {"devices", devices},
                      {"images", images},
                      {"where", where},
                      {"fits_per_s", 1e6 * rate},
                      {"times", rate / one}});
    };
    const auto rate_of = [&](fitter::CudaBatchFitter& cuda, const Workload& work,
                             std::size_t images) {
      fitter::Batch batch = work.batch(images);
      batch.starts = nullptr;
      const Timing t = repeat(
          [&] {
            cuda.search(batch, options, {}, {work.results.get(), images});
          },
          0.5);
      return static_cast<double>(images) / t.p50;
    };
    const Workload pinned(kSide, kMillion, false);
    Fits fits(kOnCpu);
    fitter::Batch some = pinned.batch(kOnCpu);
    some.starts = nullptr;
    const Timing cpu = repeat([&] { fitter::fit_swarm_cpu(some, options, {}, fits, {}, 1); }, 0.5);
    const double core = static_cast<double>(kOnCpu) / cpu.p50;
    report(0, kOnCpu, "cpu, 1 core", core, core);
    {
      require(cudaSetDevice(0));
      const Workload device(kSide, kMillion, true);
      const double rate = rate_of(*fitter::make_cuda_batch_fitter(), device, kMillion);
      report(1, kMillion, "device", rate, rate);
    }
    for (const std::size_t images : {kPaper, kMillion}) {
      double one = 0;
      for (int devices = 1; devices <= present; devices *= 2) {
        fitter::CudaBatchOptions all;
        all.devices.resize(static_cast<std::size_t>(devices));
        std::iota(all.devices.begin(), all.devices.end(), 0);
        const double rate = rate_of(*fitter::make_cuda_batch_fitter(all), pinned, images);
        if (devices == 1) one = rate;
        report(devices, images, "pinned", rate, one);
      }
    }
  }
  return rows;
}

json machine() {
  cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  require(cudaGetDeviceProperties(&properties, 0));
  require(cudaDriverGetVersion(&driver));
  require(cudaRuntimeGetVersion(&runtime));
  const std::chrono::year_month_day today =
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  char date[32];
  std::snprintf(date, sizeof(date), "%04d-%02u-%02u", static_cast<int>(today.year()),
                static_cast<unsigned>(today.month()), static_cast<unsigned>(today.day()));
  return {{"device", properties.name},
          {"devices", fitter::cuda_device_count()},
          {"cuda_driver", driver},
          {"cuda_runtime", runtime},
          {"cpu", fitter::make_cpu_live_fitter(9, 1, {})->description()},
          {"cpu_threads", std::thread::hardware_concurrency()},
          {"date", date}};
}

int run(const Settings& settings) {
  if (fitter::cuda_device_count() == 0) {
    std::printf("SKIPPED: no CUDA device\n");
    return 0;
  }
  json report = {{"machine", machine()}, {"signal", kSignal}, {"background", kBackground}};
  std::printf("%s\n", report["machine"].dump().c_str());
  for (const std::string& section : settings.sections) {
    if (section == "bus") report["bus"] = measure_bus();
    if (section == "live") report["live"] = measure_live(settings.live_sides, settings.frames);
    if (section == "batch")
      report["batch"] = measure_batch(settings, report.contains("bus") ? report["bus"] : json());
    if (section == "sweep") report["sweep"] = measure_sweep(settings);
    if (section == "accuracy") report["accuracy"] = measure_accuracy();
    if (section == "devices") report["devices"] = measure_devices();
    if (section == "estimators") {
      report["estimators"] = measure_estimators(settings);
      report["live_estimators"] = measure_live_estimators(settings.frames);
    }
    if (section == "swarm") report["swarm"] = measure_swarm();
  }
  if (settings.json.empty()) return 0;
  std::ofstream file(settings.json);
  file << report.dump(1) << '\n';
  if (!file) throw std::runtime_error("cannot write " + settings.json);
  return 0;
}

}  // namespace
}  // namespace driftd

int main(int argc, char** argv) {
  driftd::Settings settings;
  CLI::App app("Speed and accuracy of the CUDA fitter");
  app.add_option("--sections", settings.sections,
                 "bus, live, batch, sweep, estimators, swarm, accuracy, devices")
      ->delimiter(',');
  app.add_option("--sides", settings.sides, "ROI sides of the sweep, px")
      ->delimiter(',')
      ->check(CLI::Range(4, 64));
  app.add_option("--batches", settings.batches, "Fits a call in the sweep")->delimiter(',');
  app.add_option("--streams", settings.streams, "Of the batches")->check(CLI::Range(1, 64));
  app.add_option("--chunk-kib", settings.chunk_kib, "Of the batches, KiB of pixels");
  app.add_option("--live-sides", settings.live_sides, "ROI sides of the live calls, px")
      ->delimiter(',')
      ->check(CLI::Range(4, 64));
  app.add_option("--estimator-sides", settings.estimator_sides,
                 "ROI sides of the estimators' batches, px")
      ->delimiter(',')
      ->check(CLI::Range(4, 64));
  app.add_option("--places", settings.places, "Of the batches: pinned, device")->delimiter(',');
  app.add_option("--frames", settings.frames, "Live calls timed")->check(CLI::Range(1, 100000000));
  app.add_option("--json", settings.json, "File for the report");
  CLI11_PARSE(app, argc, argv);
  try {
    return driftd::run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftd_cuda_bench: %s\n", error.what());
    return 1;
  }
}
