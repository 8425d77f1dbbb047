// SPDX-License-Identifier: MIT
#include "daemon/fitter_choice.hpp"

#include <thread>
#include <vector>

#include "support/catch.hpp"

using namespace driftd;
using daemon::choose_fitter;

namespace {

/// Fits nothing, in a given time, and fails at a given call.
class FakeFitter final : public fitter::LiveFitter {
 public:
  FakeFitter(const char* name, std::chrono::microseconds time, int fails_at = -1)
      : name_(name), time_(time), fails_at_(fails_at) {}

  int roi_px() const noexcept override { return 9; }
  std::size_t capacity() const noexcept override { return 3; }
  std::uint16_t* staging(std::size_t i) noexcept override { return pixels_.data() + 81 * i; }
  const char* description() const noexcept override { return name_; }
  const char* error() const noexcept override { return failed_ ? "the cable melted" : nullptr; }
  std::span<const fitter::Localization> fit(
      std::span<const fitter::Start> starts) noexcept override {
    failed_ |= calls_++ == fails_at_;
    if (failed_) return {};
    const auto until = std::chrono::steady_clock::now() + time_;
    while (std::chrono::steady_clock::now() < until) {
    }
    results_.assign(starts.size(), fitter::Localization{});
    for (fitter::Localization& l : results_) l.x_px = static_cast<float>(pixels_[40]);
    return results_;
  }

 private:
  const char* name_;
  std::chrono::microseconds time_;
  int fails_at_, calls_ = 0;
  bool failed_ = false;
  std::vector<std::uint16_t> pixels_ = std::vector<std::uint16_t>(3 * 81);
  std::vector<fitter::Localization> results_;
};

daemon::FitterMakers makers(int cpu_us, int cuda_us, int cuda_fails_at = -1) {
  using std::chrono::microseconds;
  return {[=] { return std::make_unique<FakeFitter>("cpu (fake)", microseconds(cpu_us)); },
          [=] {
            return std::make_unique<FakeFitter>("cuda (fake)", microseconds(cuda_us),
                                                cuda_fails_at);
          }};
}

daemon::FitterMakers without_cuda() {
  daemon::FitterMakers made = makers(1, 1);
  made.cuda = []() -> std::unique_ptr<fitter::LiveFitter> {
    throw fitter::FitterError("CUDA: no device");
  };
  return made;
}

}  // namespace

TEST_CASE("auto takes the faster back end and says what it measured", "[fitter_choice]") {
  const auto cpu = choose_fitter("auto", 1.3, makers(5, 200));
  CHECK(cpu.fitter->description() == std::string("cpu (fake)"));
  CHECK(cpu.reason.find("p99 of 3 fits: cpu ") == 0);
  CHECK(cpu.reason.find(" us, cuda ") != std::string::npos);
  const auto cuda = choose_fitter("auto", 1.3, makers(200, 5));
  CHECK(cuda.fitter->description() == std::string("cuda (fake)"));
}

TEST_CASE("auto takes the CPU where CUDA cannot be had or fails on trial", "[fitter_choice]") {
  const auto none = choose_fitter("auto", 1.3, without_cuda());
  CHECK(none.fitter->description() == std::string("cpu (fake)"));
  CHECK(none.reason == "CUDA: no device");
  const auto failed = choose_fitter("auto", 1.3, makers(200, 5, 100));
  CHECK(failed.fitter->description() == std::string("cpu (fake)"));
  CHECK(failed.reason == "the cable melted");
}

TEST_CASE("cpu and cuda are taken at their word", "[fitter_choice]") {
  CHECK(choose_fitter("cpu", 1.3, without_cuda()).fitter->description() ==
        std::string("cpu (fake)"));
  CHECK(choose_fitter("cuda", 1.3, makers(5, 200)).fitter->description() ==
        std::string("cuda (fake)"));
  CHECK_THROWS_AS(choose_fitter("cuda", 1.3, without_cuda()), fitter::FitterError);
}

TEST_CASE("when CUDA fails the CPU fits the same frame", "[fitter_choice]") {
  const auto chosen = choose_fitter("cuda", 1.3, makers(5, 5, 2));
  const std::vector<fitter::Start> starts(3);
  for (int frame = 0; frame < 5; ++frame) {
    chosen.fitter->staging(0)[40] = static_cast<std::uint16_t>(100 + frame);
    const auto fits = chosen.fitter->fit(starts);
    REQUIRE(fits.size() == 3);
    CHECK(fits[0].x_px == static_cast<float>(100 + frame));
    CHECK((chosen.fitter->error() != nullptr) == (frame >= 2));
    CHECK(chosen.fitter->description() == std::string(frame < 2 ? "cuda (fake)" : "cpu (fake)"));
  }
}
