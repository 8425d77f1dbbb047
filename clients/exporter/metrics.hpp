// SPDX-License-Identifier: MIT
// The exporter's metrics: one table that says what each is, where its value stands in the document
// that DaemonWatch makes, and how it is written in Prometheus' text format and in OpenMetrics'.
// Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace driftd::exporter {

enum class Kind {
  Counter,    ///< grows; starts anew with the daemon
  Gauge,      ///< a number or a flag of now
  StateSet,   ///< one sample a state, 1 for the one that is
  Info,       ///< words, as labels of a 1
  Histogram,  ///< a latency of `status`, by its buckets
  Summary,    ///< a latency of `status`, by its percentiles
  Tally,      ///< a counter for each key of an object of objects: two labels
};

struct Source {
  std::string_view pointer;      ///< JSON pointer into the document
  std::string_view labels = {};  ///< axis="x"; of Info the label's name; of Tally both, by a comma
};

struct Metric {
  std::string_view
      name;  ///< as Prometheus shows it; of Histogram and Summary without their endings
  Kind kind;
  std::string_view help;
  std::vector<Source> sources;
  double scale = 1;                           ///< from the document's unit to the name's
  std::vector<std::string_view> states = {};  ///< of StateSet, all there are
  bool of_exporter = false;                   ///< told while the daemon is silent, too
};

std::span<const Metric> metrics();

enum class Format { Prometheus, OpenMetrics };
std::string_view content_type(Format format);
/// What the header Accept asks for: OpenMetrics where it is named, else the older format.
Format format_for(std::string_view accept);

/// All metrics that have a value. What is of now, other than counters, is left out while the daemon
/// is silent (/exporter/up is 0).
std::string exposition(const nlohmann::json& document, Format format);

/// The table as docs/use/watching.md has it.
std::string markdown();

}  // namespace driftd::exporter
