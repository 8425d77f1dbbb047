// SPDX-License-Identifier: MIT
#include "clients/exporter/metrics.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>

namespace driftd::exporter {
namespace {

using nlohmann::json;

const json* find(const json& object, std::string_view pointer) {
  const json::json_pointer path{std::string(pointer)};
  return object.contains(path) ? &object.at(path) : nullptr;
}

/// A number or a flag as text; nothing for what is neither.
std::optional<std::string> number(const json& value, double scale) {
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (!value.is_number()) return std::nullopt;
  if (scale != 1) return fmt::format("{:.10g}", value.get<double>() * scale);
  if (value.is_number_unsigned()) return std::to_string(value.get<std::uint64_t>());
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  return fmt::format("{}", value.get<double>());
}

std::string label(std::string_view name, std::string_view value) {
  std::string text = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string sample(std::string_view name, const std::string& labels, std::string_view value) {
  return labels.empty() ? fmt::format("{} {}\n", name, value)
                        : fmt::format("{}{{{}}} {}\n", name, labels, value);
}

std::string joined(std::string_view labels, const std::string& more) {
  return labels.empty() ? more : fmt::format("{},{}", labels, more);
}

std::string state_samples(const Metric& metric, const json& document) {
  const json* value = find(document, metric.sources.front().pointer);
  if (value == nullptr || !value->is_string()) return {};
  const auto& now = value->get_ref<const std::string&>();
  std::string text;
  for (const std::string_view state : metric.states)
    text += sample(metric.name, label(metric.name, state), state == now ? "1" : "0");
  return text;
}

std::string info_sample(const Metric& metric, const json& document) {
  std::string labels;
  for (const Source& source : metric.sources) {
    const json* value = find(document, source.pointer);
    if (value == nullptr || !value->is_string()) continue;
    labels = joined(labels, label(source.labels, value->get_ref<const std::string&>()));
  }
  return labels.empty() ? "" : sample(metric.name, labels, "1");
}

std::string tally_samples(const Metric& metric, const json& document) {
  const Source& source = metric.sources.front();
  const json* outer = find(document, source.pointer);
  if (outer == nullptr || !outer->is_object()) return {};
  const std::size_t comma = source.labels.find(',');
  std::string text;
  for (const auto& [first, inner] : outer->items()) {
    for (const auto& [second, value] : inner.items()) {
      const auto count = number(value, 1);
      if (count)
        text += sample(metric.name,
                       joined(label(source.labels.substr(0, comma), first),
                              label(source.labels.substr(comma + 1), second)),
                       *count);
    }
  }
  return text;
}

std::string histogram_samples(const Metric& metric, const json& document) {
  const json* edges = find(document, "/status/latency_edges_us");
  if (edges == nullptr || !edges->is_array()) return {};
  std::string text;
  const std::string name(metric.name);
  for (const Source& source : metric.sources) {
    const json* latency = find(document, source.pointer);
    if (latency == nullptr) continue;
    const json* counts = find(*latency, "/at_most");
    const json* all = find(*latency, "/n");
    const json* sum = find(*latency, "/sum");
    if (counts == nullptr || !counts->is_array() || counts->size() != edges->size() ||
        all == nullptr || !all->is_number_unsigned() || sum == nullptr || !sum->is_number())
      continue;
    for (std::size_t i = 0; i < edges->size(); ++i) {
      const auto edge = number((*edges)[i], metric.scale);
      const auto count = number((*counts)[i], 1);
      if (edge && count)
        text += sample(name + "_bucket", joined(source.labels, label("le", *edge)), *count);
    }
    const std::string total = *number(*all, 1);
    text += sample(name + "_bucket", joined(source.labels, label("le", "+Inf")), total);
    text += sample(name + "_sum", std::string(source.labels), *number(*sum, metric.scale));
    text += sample(name + "_count", std::string(source.labels), total);
  }
  return text;
}

std::string summary_samples(const Metric& metric, const json& document) {
  const json* latency = find(document, metric.sources.front().pointer);
  if (latency == nullptr) return {};
  std::string text;
  for (const auto& [key, quantile] :
       {std::pair{"/p50", "0.5"}, std::pair{"/p99", "0.99"}, std::pair{"/p99_9", "0.999"}}) {
    const json* value = find(*latency, key);
    const auto shown = value != nullptr ? number(*value, metric.scale) : std::nullopt;
    if (shown) text += sample(metric.name, label("quantile", quantile), *shown);
  }
  const json* count = find(*latency, "/n");
  const auto shown = count != nullptr ? number(*count, 1) : std::nullopt;
  if (shown) text += sample(std::string(metric.name) + "_count", "", *shown);
  return text;
}

std::string samples(const Metric& metric, const json& document) {
  switch (metric.kind) {
    case Kind::StateSet:
      return state_samples(metric, document);
    case Kind::Info:
      return info_sample(metric, document);
    case Kind::Tally:
      return tally_samples(metric, document);
    case Kind::Histogram:
      return histogram_samples(metric, document);
    case Kind::Summary:
      return summary_samples(metric, document);
    case Kind::Counter:
    case Kind::Gauge:
      break;
  }
  std::string text;
  for (const Source& source : metric.sources) {
    const json* value = find(document, source.pointer);
    const auto shown = value != nullptr ? number(*value, metric.scale) : std::nullopt;
    if (shown) text += sample(metric.name, std::string(source.labels), *shown);
  }
  return text;
}

std::string_view type_of(Kind kind, Format format) {
  const bool open = format == Format::OpenMetrics;
  switch (kind) {
    case Kind::Counter:
    case Kind::Tally:
      return "counter";
    case Kind::StateSet:
      return open ? "stateset" : "gauge";
    case Kind::Info:
      return open ? "info" : "gauge";
    case Kind::Histogram:
      return "histogram";
    case Kind::Summary:
      return "summary";
    case Kind::Gauge:
      break;
  }
  return "gauge";
}

/// OpenMetrics names a family without the ending that its samples have.
std::string_view family_of(const Metric& metric, Format format) {
  constexpr std::string_view kTotal = "_total";
  constexpr std::string_view kInfo = "_info";
  std::string_view name = metric.name;
  if (format == Format::Prometheus) return name;
  if (name.ends_with(kTotal)) name.remove_suffix(kTotal.size());
  if (metric.kind == Kind::Info) name.remove_suffix(kInfo.size());
  return name;
}

bool is_told_of_silence(const Metric& metric) {
  return metric.of_exporter || (metric.kind != Kind::Gauge && metric.kind != Kind::StateSet);
}

}  // namespace

std::string_view content_type(Format format) {
  return format == Format::OpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

Format format_for(std::string_view accept) {
  return accept.find("application/openmetrics-text") == std::string_view::npos
             ? Format::Prometheus
             : Format::OpenMetrics;
}

std::string exposition(const json& document, Format format) {
  const json* up = find(document, "/exporter/up");
  const bool silent = up == nullptr || *up != 1;
  std::string text;
  for (const Metric& metric : metrics()) {
    if (silent && !is_told_of_silence(metric)) continue;
    const std::string lines = samples(metric, document);
    if (lines.empty()) continue;
    const std::string_view family = family_of(metric, format);
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n{}", family, metric.help, family,
                        type_of(metric.kind, format), lines);
  }
  if (format == Format::OpenMetrics) text += "# EOF\n";
  return text;
}

std::string markdown() {
  std::string text = "| metric | type | labels | what it tells |\n| --- | --- | --- | --- |\n";
  for (const Metric& metric : metrics()) {
    std::string labels;
    const auto add = [&](std::string_view name) {
      if (labels.find(fmt::format("`{}`", name)) == std::string::npos)
        labels += fmt::format("{}`{}`", labels.empty() ? "" : ", ", name);
    };
    for (const Source& source : metric.sources) {
      std::string_view rest = source.labels;
      while (!rest.empty()) {
        const std::string_view label = rest.substr(0, rest.find(','));
        add(label.substr(0, label.find('=')));
        rest.remove_prefix(std::min(rest.size(), label.size() + 1));
      }
    }
    if (metric.kind == Kind::StateSet) add(metric.name);
    if (metric.kind == Kind::Histogram) add("le");
    if (metric.kind == Kind::Summary) add("quantile");
    std::string states;
    for (const std::string_view state : metric.states)
      states += fmt::format("{}`{}`", states.empty() ? " " : ", ", state);
    text += fmt::format("| `{}` | {} | {} | {}{} |\n", metric.name,
                        type_of(metric.kind, Format::OpenMetrics), labels, metric.help, states);
  }
  return text;
}

}  // namespace driftd::exporter
