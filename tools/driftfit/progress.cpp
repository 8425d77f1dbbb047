// SPDX-License-Identifier: MIT
#include "tools/driftfit/progress.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>

namespace driftd::tools {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr int kBarWidth = 30;

}  // namespace

std::string progress_line(std::int64_t done, std::int64_t total, double elapsed_s) {
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0;
  const int filled = std::clamp(static_cast<int>(share * kBarWidth), 0, kBarWidth);
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                          std::string(static_cast<std::size_t>(kBarWidth - filled), '.');
  std::string line =
      fmt::format("[{}] {:3.0f} %  {}/{} frames, {:.0f}/s", bar, 100 * share, done, total, rate);
  if (rate > 0) line += fmt::format(", {:.0f} s left", static_cast<double>(total - done) / rate);
  return line;
}

Progress::Progress(std::int64_t total, bool shown) : total_(total), shown_(shown) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(std::int64_t frames) {
  done_ += frames;
  const Clock::time_point now = Clock::now();
  if (!shown_ || now < next_) return;
  next_ = now + kRedraw;
  const double elapsed_s = std::chrono::duration<double>(now - begin_).count();
  std::fputs(("\r" + progress_line(done_, total_, elapsed_s) + "\033[K").c_str(), stderr);
}

}  // namespace driftd::tools
