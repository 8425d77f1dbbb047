// SPDX-License-Identifier: MIT
// Gpufit's calls on arrays of a GPU, with a GPU whose memory is the host's and whose fitter is the
// CPU's: which arrays are copied, and that fits beyond one portion find their own.
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "fitter/cuda_fitter.hpp"
#include "fitter/gpufit/device_call.hpp"
#include "fitter/gpufit/gpufit.h"
#include "support/catch.hpp"

namespace driftd::fitter {
namespace {

int devices = 1;
std::size_t copied_bytes = 0;
int current_device = 0;
std::optional<int> device_of_data;
std::mutex of_fitted;  ///< of the next two: blocks are fitted on threads
std::size_t fitted_on_gpu = 0;
std::vector<int> fitted_on;  ///< device after device

class PretendedGpu final : public CudaBatchFitter {
 public:
  explicit PretendedGpu(int device) : device_(device) {}
  void fit(const Batch& batch, const FitOptions& options,
           std::span<Localization> results) override {
    {
      const std::lock_guard lock(of_fitted);
      fitted_on_gpu += batch.count;
      if (fitted_on.empty() || fitted_on.back() != device_) fitted_on.push_back(device_);
    }
    fit_batch_cpu(batch, options, results);
  }
  void fit_frames(const FrameFits&, const FitOptions&, std::span<Localization>) override {}
  void search(const Batch&, const FitOptions&, const SwarmOptions&, std::span<Localization>,
              std::span<SwarmReport>) override {}

 private:
  int device_;
};

}  // namespace

// Instead of those of the CUDA back end.
int cuda_device_count() noexcept {
  return devices;
}
int cuda_current_device() noexcept {
  return current_device;
}
std::optional<int> cuda_device_of(const void*) noexcept {
  return device_of_data;
}
std::string cuda_obstacle(int) {
  return devices > 0 ? "" : "CUDA: no device";
}
bool host_can_read(const void*) noexcept {
  return false;  // a GPU that fails is reported, not replaced
}
void* allocate_pinned(std::size_t, std::optional<int>) noexcept {
  return nullptr;
}
void free_pinned(void*) noexcept {}
CudaVersions cuda_versions() noexcept {
  return {12000, 12000};
}
void cuda_copy(void* to, const void* from, std::size_t bytes) {
  copied_bytes += bytes;
  std::memcpy(to, from, bytes);
}
std::unique_ptr<CudaBatchFitter> make_cuda_batch_fitter(const CudaBatchOptions& cuda) {
  REQUIRE(cuda.devices.size() == 1);
  return std::make_unique<PretendedGpu>(cuda.devices[0]);
}

namespace {

constexpr std::size_t kSide = 5, kPoints = kSide * kSide, kParameters = 5;
constexpr std::size_t kFits = (std::size_t{1} << 17) + 3;

struct Arrays {
  std::vector<float> data, weights, parameters, constraints, chi_squares;
  std::vector<int> states, iterations;
};

Arrays draw(std::size_t fits) {
  Arrays a = {std::vector<float>(fits * kPoints),
              std::vector<float>(fits * kPoints, 0.5f),
              {},
              {},
              std::vector<float>(fits),
              std::vector<int>(fits, -1),
              std::vector<int>(fits)};
  for (std::size_t i = 0; i < fits; ++i) {
    const float x0 = 1.8f + 0.1f * static_cast<float>(i % 5);
    for (std::size_t k = 0; k < kPoints; ++k) {
      const float u = static_cast<float>(k % kSide) - x0;
      const float v = static_cast<float>(k / kSide) - 2.1f;
      a.data[i * kPoints + k] = 3 + 100 * std::exp(-(u * u + v * v) / 2);
    }
    for (const float start : {80.0f, 2.0f, 2.0f, 1.2f, 1.0f}) a.parameters.push_back(start);
    for (std::size_t j = 0; j < kParameters; ++j) {
      a.constraints.push_back(-1000);
      a.constraints.push_back(j == 3 ? 0.9f : 1000.0f);
    }
  }
  return a;
}

drop_in::Call call_of(Arrays& a, const int* to_fit, const int* types) {
  return {.n_fits = a.states.size(),
          .n_points = kPoints,
          .data = a.data.data(),
          .weights = a.weights.data(),
          .model_id = GAUSS_2D,
          .initial_parameters = a.parameters.data(),
          .constraints = types != nullptr ? a.constraints.data() : nullptr,
          .constraint_types = types,
          .tolerance = 1e-5f,
          .max_n_iterations = 30,
          .parameters_to_fit = to_fit,
          .estimator_id = LSE,
          .user_info_size = 0,
          .user_info = nullptr,
          .output_parameters = a.parameters.data(),
          .output_states = a.states.data(),
          .output_chi_squares = a.chi_squares.data(),
          .output_n_iterations = a.iterations.data()};
}

constexpr int kAll[] = {1, 1, 1, 1, 1};

TEST_CASE("arrays on a GPU give the fits of arrays on the host") {
  Arrays device = draw(kFits), host = draw(kFits);
  copied_bytes = 0;
  drop_in::fit_on_device(call_of(device, kAll, nullptr));
  drop_in::fit(call_of(host, kAll, nullptr));
  CHECK(device.parameters == host.parameters);
  CHECK(device.states == host.states);
  CHECK(device.chi_squares == host.chi_squares);
  CHECK(device.iterations == host.iterations);
  CHECK(device.states.back() == CONVERGED);
  CHECK(std::abs(device.parameters[(kFits - 1) * kParameters + 1] -
                 (1.8f + 0.1f * static_cast<float>((kFits - 1) % 5))) < 1e-3f);
  CHECK(copied_bytes == 4 * kFits * (kPoints + 2 * kParameters + 3));  // all but the data
  CHECK(fitted_on_gpu == 2 * kFits);
}

TEST_CASE("arrays are fitted on the GPU that has them, those of the host on the current one") {
  Arrays a = draw(65);
  const auto call = call_of(a, kAll, nullptr);
  fitted_on.clear();
  current_device = 2;
  drop_in::fit(call);
  device_of_data = 1;
  drop_in::fit(call);
  drop_in::fit_on_device(call);
  current_device = 0;
  drop_in::fit_on_device(call);
  drop_in::fit(call);
  device_of_data.reset();
  CHECK(fitted_on == std::vector<int>{2, 1, 0});
}

TEST_CASE("few fits of the host are not worth a GPU") {
  Arrays a = draw(64);
  fitted_on_gpu = 0;
  drop_in::fit(call_of(a, kAll, nullptr));
  CHECK(fitted_on_gpu == 0);
  CHECK(a.states.back() == CONVERGED);
}

TEST_CASE("constraints on a GPU hold") {
  Arrays a = draw(10);
  const int types[] = {NONE, NONE, NONE, UPPER, NONE};
  drop_in::fit_on_device(call_of(a, kAll, types));
  for (std::size_t i = 0; i < 10; ++i) CHECK(a.parameters[i * kParameters + 3] == 0.9f);
}

TEST_CASE("straight lines on a GPU find their places, each its own or one for all") {
  const bool shared = GENERATE(false, true);
  constexpr std::size_t kOfLine = 3;
  Arrays a = draw(0);
  std::vector<float> places;
  a.states.assign(kFits, -1);
  a.chi_squares.resize(kFits);
  a.iterations.resize(kFits);
  a.parameters.assign(2 * kFits, 1);
  const auto slope = [](std::size_t i) { return static_cast<float>(i % 7) - 3; };
  for (std::size_t i = 0; i < kFits; ++i)
    for (std::size_t k = 0; k < kOfLine; ++k) {
      const auto x = static_cast<float>(k * k + (shared ? 0 : i % 5));
      if (!shared || i == 0) places.push_back(x);
      a.data.push_back(10 + slope(i) * x);
    }
  drop_in::Call call = call_of(a, kAll, nullptr);
  call.model_id = LINEAR_1D;
  call.n_points = kOfLine;
  call.weights = nullptr;
  call.user_info = reinterpret_cast<const char*>(places.data());
  call.user_info_size = places.size() * sizeof(float);
  fitted_on_gpu = 0;
  drop_in::fit_on_device(call);
  CHECK(fitted_on_gpu == 0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kFits; ++i) {
    const bool right = a.states[i] == CONVERGED && std::fabs(a.parameters[2 * i] - 10) < 1e-3f &&
                       std::fabs(a.parameters[2 * i + 1] - slope(i)) < 1e-3f;
    wrong += right ? 0u : 1u;
  }
  CHECK(wrong == 0);
}

TEST_CASE("arrays on a GPU that are missing, or without a GPU, are an error before any copy") {
  Arrays a = draw(1);
  copied_bytes = 0;
  drop_in::Call call = call_of(a, kAll, nullptr);
  call.data = nullptr;
  CHECK_THROWS_AS(drop_in::fit_on_device(call), FitterError);
  devices = 0;
  CHECK_THROWS_AS(drop_in::fit_on_device(call_of(a, kAll, nullptr)), FitterError);
  devices = 1;
  CHECK(copied_bytes == 0);
}

}  // namespace
}  // namespace driftd::fitter
