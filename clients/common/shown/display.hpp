// SPDX-License-Identifier: MIT
// Puts lines on standard output: redrawn in place, coloured and cut to the window on a terminal;
// one plain line a second otherwise (a pipe, a log). One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/common/shown/daemon_view.hpp"

namespace driftd::clients {

class Display {
 public:
  Display();

  bool terminal() const noexcept { return terminal_; }
  /// Shows the view below `heading` (what the caller is doing; may be empty) and `extra` lines of
  /// the caller's own. To be called often: it draws at most kFramesPerSecond, and less when plain.
  void show(const DaemonView& view, const std::string& heading,
            const std::vector<Line>& extra = {});
  /// Leaves what is shown where it is and prints a line below it.
  void print(const Line& line);

 private:
  void draw(std::vector<Line> lines);
  std::string coloured(const Line& line) const;

  bool terminal_;
  bool colour_;
  std::size_t drawn_lines_ = 0;
  std::int64_t last_ns_ = 0;
};

}  // namespace driftd::clients
