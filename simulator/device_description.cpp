// SPDX-License-Identifier: MIT
#include "simulator/device_description.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "genicam_xml.hpp"

namespace driftd::simulator {
namespace {

const std::string kLinePadding = "LINE_PADDING";  // stands for a number

std::vector<std::string> active_parts(const CameraDialect& dialect) {
  std::vector<std::string> parts;
  parts.emplace_back(dialect.names == FeatureNames::Legacy ? "names-legacy" : "names-standard");
  parts.emplace_back(dialect.gain == GainUnit::Db       ? "gain-db"
                     : dialect.gain == GainUnit::Factor ? "gain-factor"
                                                        : "gain-raw");
  parts.emplace_back(dialect.rate_gate == RateGate::Enable ? "rate-enable" : "rate-mode");
  if (dialect.rate_gate == RateGate::Mode) parts.emplace_back("rate-mode-on");
  if (dialect.rate_gate == RateGate::ModeBasic) parts.emplace_back("rate-mode-basic");
  if (dialect.tick_hz > 0) parts.emplace_back("clock");
  return parts;
}

}  // namespace

std::string describe(const CameraDialect& dialect) {
  const std::vector<std::string> active = active_parts(dialect);
  std::istringstream lines(kGenicamXml);
  std::string text;
  std::string line;
  bool wanted = true;
  while (std::getline(lines, line)) {
    static const std::string only = "<!-- only: ";
    const std::size_t start = line.find(only);
    if (start != std::string::npos) {
      const std::size_t name = start + only.size();
      const std::string part = line.substr(name, line.find(' ', name) - name);
      wanted = std::find(active.begin(), active.end(), part) != active.end();
    } else if (line.find("<!-- end -->") != std::string::npos) {
      wanted = true;
    } else if (wanted) {
      const std::size_t padding = line.find(kLinePadding);
      if (padding != std::string::npos) {
        line.replace(padding, kLinePadding.size(), std::to_string(dialect.line_padding_bytes));
      }
      text += line + '\n';
    }
  }
  return text;
}

}  // namespace driftd::simulator
