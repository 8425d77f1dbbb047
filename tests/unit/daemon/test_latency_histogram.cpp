// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/process/latency_histogram.hpp"
#include "support/catch.hpp"

using driftd::LatencyHistogram;

TEST_CASE("LatencyHistogram percentiles agree with sorting within its resolution, never below") {
  LatencyHistogram histogram;
  std::mt19937_64 generator(3);
  std::lognormal_distribution<double> latency_ns(std::log(40e3), 1.0);
  std::vector<std::int64_t> all;
  for (int i = 0; i < 100'000; ++i) {
    all.push_back(static_cast<std::int64_t>(latency_ns(generator)));
    histogram.record(all.back());
  }
  std::sort(all.begin(), all.end());
  const auto exact_us = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(all.size())));
    return static_cast<double>(all[rank - 1]) * 1e-3;
  };
  const auto summary = histogram.summary();
  REQUIRE(summary.count == all.size());
  for (const auto& [measured, share] :
       {std::pair{summary.p50_us, 0.5}, {summary.p99_us, 0.99}, {summary.p99_9_us, 0.999}}) {
    REQUIRE(measured >= exact_us(share));
    REQUIRE(measured <= exact_us(share) * (1 + 1.0 / 32));  // 32 bins an octave
  }
  REQUIRE(summary.max_us == Approx(static_cast<double>(all.back()) * 1e-3));
}

TEST_CASE("LatencyHistogram's buckets count what is below their edges, all but a bin's worth") {
  LatencyHistogram histogram;
  std::mt19937_64 generator(5);
  std::lognormal_distribution<double> latency_ns(std::log(300e3), 2.0);
  std::vector<std::int64_t> all;
  double sum_us = 0;
  for (int i = 0; i < 50'000; ++i) {
    all.push_back(static_cast<std::int64_t>(latency_ns(generator)));
    sum_us += static_cast<double>(all.back()) * 1e-3;
    histogram.record(all.back());
  }
  const auto summary = histogram.summary();
  CHECK(summary.sum_us == Approx(sum_us));
  const auto below = [&](double limit_ns) {
    return static_cast<std::uint64_t>(std::count_if(all.begin(), all.end(), [&](std::int64_t ns) {
      return static_cast<double>(ns) <= limit_ns;
    }));
  };
  for (std::size_t i = 0; i < driftd::kLatencyEdges_us.size(); ++i) {
    const double edge_ns = 1e3 * driftd::kLatencyEdges_us[i];
    INFO(edge_ns);
    CHECK(summary.at_most[i] <= below(edge_ns));
    CHECK(summary.at_most[i] >= below(edge_ns * (1 - 1.0 / 32)));
  }
}

TEST_CASE("LatencyHistogram takes any duration") {
  LatencyHistogram histogram;
  for (const std::int64_t ns : {std::int64_t{-5}, std::int64_t{0}, std::int64_t{1},
                                std::int64_t{3'600'000'000'000}, INT64_MAX}) {
    histogram.record(ns);
  }
  REQUIRE(histogram.summary().count == 5);
  REQUIRE(histogram.summary().max_us == Approx(static_cast<double>(INT64_MAX) * 1e-3));
  REQUIRE(LatencyHistogram().summary().p50_us == 0);
}

TEST_CASE("LatencyHistogram percentiles of few durations are among them, rounded up") {
  LatencyHistogram few;
  for (std::int64_t ns = 1; ns <= 7; ++ns) few.record(ns);
  CHECK(few.summary().p50_us == Approx(0.004));
  CHECK(few.summary().p99_us == Approx(0.007));
  LatencyHistogram one;
  one.record(1'000'003);
  CHECK(one.summary().p50_us == Approx(1000.003));  // its bin ends later
  CHECK(one.summary().p99_9_us == Approx(1000.003));
  one.record(5);
  CHECK(one.summary().max_us == Approx(1000.003));
}
