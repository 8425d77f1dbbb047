// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/question.hpp"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace driftd::clients {

bool is_answerable() {
  return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

bool ask(const std::string& question, StopSignal& stop) {
  std::fflush(stdout);
  fmt::print(stderr, "{} [y/N] ", question);
  std::fflush(stderr);
  for (;;) {
    constexpr int kLookEveryMs = 50;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, kLookEveryMs) > 0) break;
    if (stop.raised()) {  // since the measurement, which it would have ended
      fmt::print(stderr, "\n");
      throw std::runtime_error("interrupted; nothing was written");
    }
  }
  std::array<char, 256> answer{};
  const ssize_t size = read(STDIN_FILENO, answer.data(), answer.size());
  const std::string_view text(answer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return text.starts_with('y') || text.starts_with('Y');
}

}  // namespace driftd::clients
