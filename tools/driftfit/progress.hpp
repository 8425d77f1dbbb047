// SPDX-License-Identifier: MIT
// A progress bar on stderr, drawn at most ten times a second and wiped when it ends. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace driftd::tools {

/// "[#####.....]  50 %  500/1000 frames, 250/s, 2 s left"
std::string progress_line(std::int64_t done, std::int64_t total, double elapsed_s);

class Progress {
 public:
  Progress(std::int64_t total, bool shown);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void advance(std::int64_t frames);

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t total_, done_ = 0;
  bool shown_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_;
};

}  // namespace driftd::tools
