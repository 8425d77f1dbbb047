// SPDX-License-Identifier: MIT
#include "clients/common/shown/display.hpp"
#include "base/monotonic.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "clients/common/plain.hpp"

namespace driftd::clients {
namespace {

constexpr std::int64_t kRedraw_ns = 200'000'000;
constexpr std::int64_t kPlainLine_ns = 1'000'000'000;

struct WindowSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

WindowSize window_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

const char* escape(Tone tone) {
  switch (tone) {
    case Tone::Heading:
      return "\033[1m";
    case Tone::Dim:
      return "\033[2m";
    case Tone::Good:
      return "\033[32m";
    case Tone::Warning:
      return "\033[33m";
    case Tone::Bad:
      return "\033[31m";
    case Tone::Plain:
      break;
  }
  return "";
}

/// Runs of spaces, which align a table, as one.
std::string squeezed(const std::string& text) {
  std::string result;
  std::unique_copy(text.begin(), text.end(), std::back_inserter(result),
                   [](char left, char right) { return left == ' ' && right == ' '; });
  return result;
}

}  // namespace

Display::Display() : terminal_(isatty(STDOUT_FILENO) == 1) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  colour_ = terminal_ && std::getenv("NO_COLOR") == nullptr;
}

std::string Display::coloured(const Line& line) const {
  if (!colour_ || line.tone == Tone::Plain) return line.text;
  return escape(line.tone) + line.text + "\033[0m";
}

void Display::show(const DaemonView& view, const std::string& heading,
                   const std::vector<Line>& extra) {
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns - last_ns_ < (terminal_ ? kRedraw_ns : kPlainLine_ns)) return;
  last_ns_ = now_ns;
  if (!terminal_) {
    std::string line = view.one_line(now_ns);
    for (const Line& part : extra) line += "  " + squeezed(part.text);
    fmt::print("{}\n", line);
    std::fflush(stdout);
    return;
  }
  std::vector<Line> lines;
  if (!heading.empty()) lines.push_back({heading, Tone::Heading});
  for (Line& line : view.summary(now_ns)) lines.push_back(std::move(line));
  lines.insert(lines.end(), extra.begin(), extra.end());
  const std::vector<Line> events = view.events();
  const std::size_t rows = window_size().rows;
  const std::size_t used = lines.size() + events.size() + 3;  // two blank lines and the cursor's
  lines.emplace_back();
  for (Line& line : view.marker_table(rows > used ? rows - used : 0)) {
    lines.push_back(std::move(line));
  }
  lines.emplace_back();
  lines.insert(lines.end(), events.begin(), events.end());
  draw(std::move(lines));
}

void Display::draw(std::vector<Line> lines) {
  const WindowSize window = window_size();
  lines.resize(std::min(lines.size(), window.rows - 1));
  // One write a frame, so that nothing flickers: up to where the last one began, each line cleared
  // behind its text, and what the last one had below this one's end cleared too.
  std::string output;
  if (drawn_lines_ > 0) output += fmt::format("\033[{}A", drawn_lines_);
  for (Line& line : lines) {
    line.text = cut(line.text, window.columns);
    output += coloured(line) + "\033[K\n";
  }
  output += "\033[J";
  std::fwrite(output.data(), 1, output.size(), stdout);
  std::fflush(stdout);
  drawn_lines_ = lines.size();
}

void Display::print(const Line& line) {
  fmt::print("{}\n", coloured(line));
  std::fflush(stdout);
  drawn_lines_ = 0;
  last_ns_ = 0;
}

}  // namespace driftd::clients
