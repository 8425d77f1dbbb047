// SPDX-License-Identifier: MIT
// What is published, one message a line, as its readers take it: driftctl's view, the exporter, the
// stage's driver and the simulator's stage. And a correction as the daemon writes it.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "clients/common/plain.hpp"
#include "clients/common/shown/daemon_view.hpp"
#include "clients/exporter/daemon_watch.hpp"
#include "clients/exporter/metrics.hpp"
#include "clients/stage/correction.hpp"
#include "daemon/loop/messages.hpp"
#include "fuzz/fuzz.hpp"
#include "simulator/sim_wire.hpp"
#include "simulator/stage_input.hpp"

namespace driftd::fuzz {
namespace {

constexpr std::int64_t kNowNs = 1'000'000'000'000;

/// Each line is a comment or "name{labels} value".
void check_exposition(const std::string& text) {
  for (const std::string& line : split(text, '\n', text.size() + 2)) {
    if (line.empty() || line.starts_with('#')) continue;
    require(line.starts_with("driftd_"), "a metric is one of driftd", line);
    const std::string value = line.substr(line.rfind(' ') + 1);
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    require(end != value.c_str() && *end == '\0' && !std::isnan(number), "a metric is a number",
            line);
  }
}

void show(const clients::DaemonView& view) {
  for (const auto& lines : {view.summary(kNowNs), view.marker_table(10), view.events()}) {
    require(lines.size() < 100, "a view is short");
    for (const clients::Line& line : lines)
      require(line.text == clients::plain(line.text), "a line is one, of no control characters",
              line.text);
  }
  require(!view.one_line(kNowNs).empty(), "a view says something");
}

void check_correction(const std::string& message, stage::Group group) {
  const auto correction = stage::parse_correction(message, group);
  if (!correction) return;
  require(!correction->session.empty() && correction->lock_id >= 0 && correction->sent_ns >= 0 &&
              correction->expires_ns >= 0,
          "a correction says whose it is", message);
  for (const auto& lengths : {correction->total_nm, correction->delta_nm}) {
    for (const double nm : lengths)
      require(std::abs(nm) < 1e9, "a correction is a length that there is", message);
  }
}

/// What is written is read as it was.
void write_correction(Choices choices) {
  daemon::FrameResult record{};
  record.lock_id = choices.take<std::uint32_t>();
  record.frame_id = choices.take<std::uint64_t>();
  record.expires_ns = choices.take<std::uint32_t>();
  record.correction.total_nm = {choices.take<double>(), choices.take<double>()};
  record.correction.delta_nm = {choices.take<float>(), choices.take<float>()};
  record.correction.limited = choices.take<std::uint8_t>();
  daemon::MessageBuffer buffer{};
  const std::string message(format_correction(buffer, 7, "session", record, 1000));
  const auto& total_nm = record.correction.total_nm;
  const auto& delta_nm = record.correction.delta_nm;
  const bool good = std::ranges::all_of(std::array{total_nm.x, total_nm.y, delta_nm.x, delta_nm.y},
                                        [](double nm) { return std::abs(nm) < 0.9e9; });
  const auto read = stage::parse_correction(message, stage::Group::Lateral);
  if (!good) return;
  require(read.has_value() && read->lock_id == static_cast<std::int64_t>(record.lock_id) &&
              read->expires_ns == record.expires_ns &&
              std::abs(read->total_nm[0] - total_nm.x) < 1e-4 &&
              std::abs(read->total_nm[1] - total_nm.y) < 1e-4 &&
              std::abs(read->delta_nm[0] - delta_nm.x) < 1e-4 &&
              std::abs(read->delta_nm[1] - delta_nm.y) < 1e-4,
          "a correction is read as it is written", message);
}

/// A small world that can be told of faults.
simulator::LiveSimulation& world() {
  static simulator::LiveSimulation world(
      simulator::load_scenario_text("camera: {width_px: 64, height_px: 64}\nmarkers: {count: 1}",
                                    "world"),
      {});
  return world;
}

void check_request_to_simulator(const std::string& message) {
  const auto request = simulator::parse_stage_request(message, message.size() % 2 == 0);
  using Kind = simulator::StageRequest::Kind;
  require((request.kind == Kind::Mistake) != request.mistake.empty(),
          "a mistake is told, and nothing else is", message);
  require(request.kind != Kind::Move ||
              (std::abs(request.target_nm.x) <= 1e9 && std::abs(request.target_nm.y) <= 1e9 &&
               std::abs(request.target_z_nm.value_or(0)) <= 1e9),
          "a target is a place that there is", message);
  if (!message.starts_with('{')) return;
  const auto reply =
      nlohmann::json::parse(simulator::answer_command(message, world(), {}, {}), nullptr, false);
  require(reply.is_object() && reply.at("ok").is_boolean(), "the simulator answers", message);
}

}  // namespace

void messages(Bytes bytes) {
  clients::DaemonView view;
  exporter::DaemonWatch watch(1'000'000'000, "0.1.0");
  simulator::CorrectionReader stage;
  Vec2 target_nm;
  for (const std::string& line : split(text_of(bytes), '\n', 20)) {
    if (auto message = clients::parse_message(line)) {
      message->restarted = message->text.size() % 2 == 0;
      view.update(*message, kNowNs - 1);
      watch.take(*message, kNowNs - 1);
      if (message->topic == "markers") view.set_markers(message->body);
      show(view);
      for (const auto format : {exporter::Format::Prometheus, exporter::Format::OpenMetrics})
        check_exposition(exporter::exposition(watch.document(kNowNs), format));
    }
    check_correction(line, stage::Group::Lateral);
    check_correction(line, stage::Group::Axial);
    check_request_to_simulator(line);
    const auto outcome = stage.read(line, kNowNs, target_nm, target_nm);
    require(outcome != simulator::CorrectionReader::Outcome::Move ||
                (std::isfinite(target_nm.x) && std::isfinite(target_nm.y)),
            "the stage is sent to a place that there is", line);
    double target_z_nm = 0;
    stage.read_axial(line, kNowNs, target_z_nm, target_z_nm);
    require(std::isfinite(target_z_nm), "z is sent to a place that there is", line);
  }
  write_correction(Choices(bytes));
}

}  // namespace driftd::fuzz
