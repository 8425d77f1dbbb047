// SPDX-License-Identifier: MIT
// Gpufit's calls on a GPU, from arrays of the host and of the GPU. Needs a device.
#include "fitter/gpufit/gpufit.h"
#include "unit/fitter/cuda_array.hpp"
#include "unit/fitter/cuda_fits.hpp"

namespace driftd {
namespace {

constexpr int kSide = 9, kPoints = kSide * kSide;
/// Several blocks of the interface, the last of them not full.
constexpr std::size_t kFits = 150'001;
/// No GPU is used for so few.
constexpr std::size_t kFew = 64;

struct Case {
  int model_id, estimator_id;
  bool weighted, constrained;
  std::size_t parameters() const {
    if (model_id == GAUSS_2D_ROTATED) return 7;
    return model_id == GAUSS_2D ? 5 : 6;
  }
};

struct Input {
  std::vector<float> data, weights, start, constraints;
};

Input draw(const Case& c) {
  const auto images = test::simulate_spots<std::uint16_t>(kSide, 2000, 400, kFits, 91);
  Input in;
  in.data.assign(images.pixels.begin(), images.pixels.end());
  for (const float v : in.data) in.weights.push_back(1 / std::max(v, 1.0f));
  for (std::size_t i = 0; i < kFits; ++i) {
    for (const float v : {100.0f, 4.0f, 4.0f, 1.4f}) in.start.push_back(v);
    if (c.model_id != GAUSS_2D) in.start.push_back(1.4f);
    in.start.push_back(4);
    if (c.model_id == GAUSS_2D_ROTATED) in.start.push_back(0.3f);
    for (std::size_t j = 0; j < c.parameters(); ++j)
      for (const float v : {j == 1 ? 3.9f : -1e6f, 1e6f}) in.constraints.push_back(v);
  }
  return in;
}

struct Output {
  explicit Output(const Case& c)
      : parameters(kFits * c.parameters()), chi_squares(kFits), states(kFits, -1), steps(kFits) {}
  std::vector<float> parameters, chi_squares;
  std::vector<int> states, steps;
};

int types[] = {NONE, LOWER_UPPER, NONE, NONE, NONE, NONE, NONE};
int all[] = {1, 1, 1, 1, 1, 1, 1};

void fit(const Case& c, Input& in, std::size_t first, std::size_t count, Output& out) {
  const std::size_t n = c.parameters();
  REQUIRE(gpufit_constrained(count, kPoints, in.data.data() + first * kPoints,
                             c.weighted ? in.weights.data() + first * kPoints : nullptr, c.model_id,
                             in.start.data() + first * n,
                             c.constrained ? in.constraints.data() + first * 2 * n : nullptr,
                             c.constrained ? types : nullptr, 1e-6f, 50, all, c.estimator_id, 0,
                             nullptr, out.parameters.data() + first * n, out.states.data() + first,
                             out.chi_squares.data() + first, out.steps.data() + first) == OK);
}

Case any_case() {
  return GENERATE(Case{GAUSS_2D, LSE, false, false}, Case{GAUSS_2D, LSE, true, false},
                  Case{GAUSS_2D, MLE, false, true}, Case{GAUSS_2D_ELLIPTIC, LSE, false, true},
                  Case{GAUSS_2D_ELLIPTIC, MLE, false, false});
}

TEST_CASE("Gpufit's calls fit on the GPU what they fit on the CPU") {
  if (test::no_device()) return;
  const Case c = any_case();
  Input in = draw(c);
  Output gpu(c), cpu(c);
  fit(c, in, 0, kFits, gpu);
  const std::size_t n = c.parameters();
  std::size_t other_state = 0;
  for (const std::size_t first : {std::size_t{0}, std::size_t{65'500}, kFits - kFew}) {
    fit(c, in, first, kFew, cpu);
    for (std::size_t i = first; i < first + kFew; ++i) {
      INFO("fit " << i);
      other_state += cpu.states[i] != gpu.states[i] ? 1u : 0u;
      CHECK(gpu.chi_squares[i] == Approx(cpu.chi_squares[i]).epsilon(1e-4));
      for (std::size_t j = 1; j < n - 1; ++j)
        CHECK(gpu.parameters[i * n + j] == Approx(cpu.parameters[i * n + j]).margin(2e-3));
    }
  }
  CHECK(other_state == 0);
  CHECK(std::count(gpu.states.begin(), gpu.states.end(), int{CONVERGED}) > 149'000);
}

TEST_CASE("Arrays on the GPU are fitted there") {
  if (test::no_device()) return;
  const Case c = GENERATE(
      Case{GAUSS_2D, LSE, true, false}, Case{GAUSS_2D, MLE, false, true},
      Case{GAUSS_2D_ELLIPTIC, LSE, false, true}, Case{GAUSS_2D_ROTATED, LSE, false, false},
      Case{GAUSS_2D_ROTATED, MLE, false, true}, Case{CAUCHY_2D_ELLIPTIC, LSE, false, false},
      Case{CAUCHY_2D_ELLIPTIC, MLE, false, true});
  Input in = draw(c);
  Output host(c), back(c);
  fit(c, in, 0, kFits, host);
  const std::size_t n = c.parameters();
  const test::CudaArray<float> data(true, in.data.data(), in.data.size()),
      weights(true, in.weights.data(), in.weights.size()),
      parameters(true, in.start.data(), in.start.size()),
      constraints(true, in.constraints.data(), in.constraints.size()),
      chi_squares(true, back.chi_squares.data(), kFits);
  const test::CudaArray<int> states(true, back.states.data(), kFits),
      steps(true, back.steps.data(), kFits);
  REQUIRE(gpufit_constrained_cuda_interface(
              kFits, kPoints, data.get(), c.weighted ? weights.get() : nullptr, c.model_id, 1e-6f,
              50, all, c.constrained ? constraints.get() : nullptr, c.constrained ? types : nullptr,
              c.estimator_id, 0, nullptr, parameters.get(), states.get(), chi_squares.get(),
              steps.get()) == OK);
  const auto fetch = [](auto& to, const auto& from) {
    REQUIRE(cudaMemcpy(to.data(), from.get(), to.size() * sizeof(to[0]), cudaMemcpyDefault) ==
            cudaSuccess);
  };
  fetch(back.parameters, parameters);
  fetch(back.chi_squares, chi_squares);
  fetch(back.states, states);
  fetch(back.steps, steps);
  CHECK(back.parameters.size() == kFits * n);
  CHECK(back.parameters == host.parameters);
  CHECK(back.chi_squares == host.chi_squares);
  CHECK(back.states == host.states);
  CHECK(back.steps == host.steps);
}

TEST_CASE("Of two GPUs, the one fits that has the arrays, and the current one stays current") {
  if (fitter::cuda_device_count() < 2) {
    std::cout << "SKIPPED: no two CUDA devices\n";
    return;
  }
  const Case c{GAUSS_2D, LSE, false, false};
  Input in = draw(c);
  Output expected(c), of_host(c), back(c);
  const auto current = [] {
    int device = -1;
    REQUIRE(cudaGetDevice(&device) == cudaSuccess);
    return device;
  };
  const auto free_on = [&](int device) {
    const int before = current();
    std::size_t left = 0, total = 0;
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    REQUIRE(cudaMemGetInfo(&left, &total) == cudaSuccess);
    REQUIRE(cudaSetDevice(before) == cudaSuccess);
    return left;
  };
  fit(c, in, 0, kFits, expected);
  CHECK(current() == 0);
  const std::size_t free_before = free_on(1);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  fit(c, in, 0, kFits, of_host);
  CHECK(current() == 1);
  CHECK(free_on(1) < free_before);  // the fitter's memory is there now
  CHECK(of_host.parameters == expected.parameters);
  const test::CudaArray<float> data(true, in.data.data(), in.data.size()),
      parameters(true, in.start.data(), in.start.size()),
      chi_squares(true, back.chi_squares.data(), kFits);
  const test::CudaArray<int> states(true, back.states.data(), kFits),
      steps(true, back.steps.data(), kFits);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(gpufit_cuda_interface(kFits, kPoints, data.get(), nullptr, c.model_id, 1e-6f, 50, all,
                                c.estimator_id, 0, nullptr, parameters.get(), states.get(),
                                chi_squares.get(), steps.get()) == OK);
  CHECK(current() == 0);
  REQUIRE(cudaMemcpy(back.parameters.data(), parameters.get(),
                     back.parameters.size() * sizeof(float), cudaMemcpyDefault) == cudaSuccess);
  CHECK(back.parameters == expected.parameters);
}

}  // namespace
}  // namespace driftd
