// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/record_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/counted.hpp"
#include "clients/driftctl/records/text_output.hpp"
#include "clients/driftctl/shared/svg_plot.hpp"

namespace driftd::clients {
namespace {

constexpr std::size_t kMostEvents = 300;
constexpr std::size_t kMostSpans = 200;

using Row = std::vector<std::string>;

std::string table(const Row& heading, const std::vector<Row>& rows) {
  std::string html = "<table><tr>";
  for (const std::string& cell : heading) html += "<th>" + escaped(cell) + "</th>";
  html += "</tr>\n";
  for (const Row& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += "<td>" + escaped(cell) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string utc(std::int64_t wall_ns) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string number(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "-";
}

std::string share_of(double part, double whole) {
  return whole > 0 ? fmt::format("{:.3f} %", 100 * part / whole) : "-";
}

std::string with_sd(double value, double sd, int decimals, const char* unit) {
  return fmt::format("{} +- {} {}", number(value, decimals), number(sd, decimals), unit);
}

std::string facts(const RecordSummary& s, const record::Header& header, const std::string& end) {
  const auto pair = [](const std::array<double, 2>& values) {
    return number(values[0], 3) + " / " + number(values[1], 3) + " nm";
  };
  const auto locked = s.state_s.find("locked");
  std::vector<Row> rows = {
      {"begun", utc(s.begin_wall_ns)},
      {"length",
       fmt::format("{:.1f} s, {} at {:.1f} Hz", s.seconds, counted(s.frames, "frame"), s.rate_hz)},
      {"camera", header.camera},
      {"ended", end.empty() ? "not: still written, or its writer was killed" : end},
      {"locked", share_of(locked == s.state_s.end() ? 0 : locked->second, s.seconds)},
      {"frames in lock (within gate.tolerance_nm: images may be taken)",
       share_of(static_cast<double>(s.in_lock), static_cast<double>(s.frames))},
      {"residual while locked, rms x / y", pair(s.locked_rms_nm)},
      {"witness markers while locked, rms x / y", pair(s.witness_rms_nm)},
      {"noise of a frame x / y",
       s.analysed_s > 0 ? pair({s.axes[0].frame_noise_nm, s.axes[1].frame_noise_nm}) : "-"},
      {"frames without a drift",
       fmt::format("{} ({} of them too late)", s.frames - s.valid, s.stale)},
      {"frames that never came", fmt::format("{}", s.missing)},
      {"corrections", fmt::format("{}, {} did not leave, {} held back by a limit", s.corrections,
                                  s.not_left, s.limited)},
      {"frame to correction, p50 / p99 / p99.9 / max",
       fmt::format("{} / {} / {} / {} us", number(percentile(s.latency_us, 0.5), 0),
                   number(percentile(s.latency_us, 0.99), 0),
                   number(percentile(s.latency_us, 0.999), 0),
                   number(percentile(s.latency_us, 1), 0))},
      {"driftd", header.driftd_version + ", session " + header.session}};
  if (s.counters.size() == 2) {
    const auto& first = s.counters[0];
    const auto& last = s.counters[1];
    rows.push_back(
        {"camera's counters meanwhile",
         fmt::format("lost {}, incomplete {}, superseded {}, resent packets {}, "
                     "disconnects {}; not recorded {}",
                     last.lost - first.lost, last.incomplete - first.incomplete,
                     last.superseded - first.superseded, last.resent_packets - first.resent_packets,
                     last.disconnects - first.disconnects,
                     last.not_recorded - first.not_recorded)});
  }
  if (s.z_frames > 0) {
    if (const AxialLockSummary& z = s.z_lock; z.engaged) {
      const auto z_locked = z.state_s.find("locked");
      rows.push_back(
          {"z locked", share_of(z_locked == z.state_s.end() ? 0 : z_locked->second, s.seconds)});
      rows.push_back(
          {"residual of z while it was locked, rms", number(s.locked_z_rms_nm, 2) + " nm"});
      rows.push_back(
          {"corrections of z", fmt::format("{}, {} did not leave", z.corrections, z.not_left)});
    } else {
      rows.push_back({"z while locked, rms from its reference (it is not corrected)",
                      number(s.locked_z_rms_nm, 2) + " nm"});
    }
    rows.push_back(
        {"noise of a frame in z", s.z_axis ? number(s.z_axis->frame_noise_nm, 2) + " nm" : "-"});
    rows.push_back({"frames with a drift, but without z",
                    fmt::format("{}", s.valid > s.z_frames ? s.valid - s.z_frames : 0)});
  }
  if (const record::PatternRow& last = s.pattern.last; last.time_ns != 0) {
    rows.push_back({"markers' pattern at the end, against its reference",
                    "turned " + with_sd(last.rotation_mrad, last.rotation_sd_mrad, 4, "mrad") +
                        ", grown " + with_sd(last.scale_ppm, last.scale_sd_ppm, 1, "ppm")});
  }
  std::string html = "<table class=\"facts\">";
  for (const Row& row : rows)
    html += "<tr><th>" + escaped(row[0]) + "</th><td>" + escaped(row[1]) + "</td></tr>\n";
  return html + "</table>\n";
}

/// A plot for what was measured of it, each with its own unit.
std::string pattern_plots(const PatternCurves& p) {
  const auto plot = [&](const char* title, const char* unit, const std::vector<Curve>& curves) {
    return draw_plot({.title = title, .x_label = "time (s)", .y_label = unit, .height_px = 200},
                     curves);
  };
  const auto any = [](const std::vector<double>& values) {
    return std::ranges::any_of(values, [](double value) { return std::isfinite(value); });
  };
  std::string html;
  if (any(p.rotation_mrad))
    html += plot("Rotation about the optical axis, from x towards y", "mrad",
                 {{"rotation", kBlue, p.time_s, p.rotation_mrad}}) +
            plot("Growth", "ppm", {{"growth", kOrange, p.time_s, p.scale_ppm}});
  if (any(p.tilt_x_mrad))
    html += plot("Tilt: how z has come to grow along x and y", "mrad",
                 {{"x", kBlue, p.time_s, p.tilt_x_mrad}, {"y", kOrange, p.time_s, p.tilt_y_mrad}});
  return html.empty() ? html : "<h2>The markers' pattern against its reference</h2>\n" + html;
}

const char* ground_of(const std::string& state) {
  if (state == "locked") return "#e8f4e8";
  if (state == "holding") return "#fbe9c8";
  if (state == "lost" || state == "fault") return "#f8d4d0";
  if (state == "calibrating") return "#e4e4f8";
  return "#f4f4f4";
}

std::vector<Band> bands_of(const std::vector<Span>& spans) {
  std::vector<Band> bands;
  bands.reserve(spans.size());
  for (const Span& span : spans) bands.push_back({span.begin_s, span.end_s, ground_of(span.state)});
  return bands;
}

std::string drift_plots(const RecordSummary& s) {
  const std::vector<Band> bands = bands_of(s.spans);
  const std::vector<Band> z_bands = s.z_lock.engaged ? bands_of(s.z_lock.spans) : bands;
  const auto plot = [&](const char* title, const std::vector<double>& x,
                        const std::vector<double>& y) {
    return draw_plot({.title = title, .x_label = "time (s)", .y_label = "nm"},
                     {{"x", kBlue, s.time_s, x}, {"y", kOrange, s.time_s, y}}, bands);
  };
  const std::vector<Curve> z = {{"z", kViolet, s.time_s, s.z_nm},
                                {"witnesses", kGrey, s.time_s, s.witness_z_nm}};
  return plot("Drift from the reference; green ground: locked", s.x_nm, s.y_nm) +
         (s.z_frames > 0
              ? draw_plot({.title = "z from its reference", .x_label = "time (s)", .y_label = "nm"},
                          z, z_bands)
              : "") +
         plot("Witness markers: the check from outside the loop", s.witness_x_nm, s.witness_y_nm) +
         plot("Where the stage was told to be, from its place at lock", s.total_x_nm,
              s.total_y_nm) +
         (s.z_lock.engaged
              ? draw_plot({.title = "Where the stage of z was told to be; ground: of the lock of z",
                           .x_label = "time (s)",
                           .y_label = "nm"},
                          {{"z", kViolet, s.time_s, s.z_lock.total_nm}}, z_bands)
              : "");
}

std::string analysis(const RecordSummary& s) {
  if (s.analysed_s <= 0) return "<p>No lock was long enough to be analysed.</p>\n";
  std::vector<Curve> spectra, allan;
  struct Axis {
    const char* name;
    const char* colour;
    const AxisReport* report;
    const Spectrum* spectrum;
  };
  std::vector<Axis> axes = {{"x", kBlue, s.axes.data(), s.spectra.data()},
                            {"y", kOrange, &s.axes[1], &s.spectra[1]}};
  if (s.z_axis) axes.push_back({"z", kViolet, &*s.z_axis, &s.z_spectrum});
  std::vector<Row> lines;
  for (const Axis& axis : axes) {
    const Spectrum& spectrum = *axis.spectrum;
    Curve curve{.name = axis.name, .colour = axis.colour, .x = {}, .y = {}};
    for (std::size_t i = 1; i < spectrum.density_nm2_per_hz.size(); ++i) {
      curve.x.push_back(static_cast<double>(i) * spectrum.spacing_hz);
      curve.y.push_back(std::sqrt(spectrum.density_nm2_per_hz[i]));
    }
    spectra.push_back(curve);
    Curve deviation{.name = axis.name, .colour = axis.colour, .x = {}, .y = {}};
    for (const AllanPoint& point : axis.report->allan) {
      deviation.x.push_back(point.averaged_s);
      deviation.y.push_back(point.deviation_nm);
    }
    allan.push_back(deviation);
    for (const VibrationLine& line : axis.report->lines)
      lines.push_back({axis.name, number(line.frequency_hz, 2), number(line.amplitude_nm, 3)});
  }
  std::string html = fmt::format("<p>Of {:.1f} s of lock without a hole.</p>\n", s.analysed_s);
  html += draw_plot({.title = "Spectrum of the residual, frame by frame",
                     .x_label = "frequency (Hz)",
                     .y_label = "nm / sqrt(Hz)",
                     .log_x = true,
                     .log_y = true},
                    spectra);
  html += draw_plot({.title = "Allan deviation of the residual",
                     .x_label = "averaged over (s)",
                     .y_label = "nm",
                     .log_x = true,
                     .log_y = true},
                    allan);
  if (!lines.empty()) html += table({"axis", "vibration (Hz)", "amplitude (nm)"}, lines);
  return html;
}

/// Times between the first lock and the end in which nothing was corrected.
std::string lost_time(const std::vector<Span>& spans) {
  std::map<std::string, std::pair<int, double>> reasons;
  std::vector<Row> rows;
  bool wanted = false;
  for (const Span& span : spans) {
    if (span.state == "locked") wanted = true;
    if (span.state == "idle") wanted = false;
    if (!wanted || span.state == "locked") continue;
    const double seconds = span.end_s - span.begin_s;
    auto& [times, sum] = reasons[span.state + ": " + (span.reason.empty() ? "?" : span.reason)];
    ++times;
    sum += seconds;
    if (rows.size() < kMostSpans)
      rows.push_back({number(span.begin_s, 3), number(seconds, 3), span.state, span.reason});
  }
  if (rows.empty())
    return "<p>None: from the first lock on every moment was locked, or unlocked by command.</p>\n";
  std::vector<Row> sums;
  sums.reserve(reasons.size());
  for (const auto& [reason, value] : reasons)
    sums.push_back({reason, std::to_string(value.first), number(value.second, 3)});
  return table({"why", "times", "seconds together"}, sums) + "<details><summary>each</summary>" +
         table({"at (s)", "seconds", "state", "reason"}, rows) + "</details>\n";
}

std::string latency(const RecordSummary& s) {
  if (s.latency_us.empty()) return "";
  Curve curve{.name = "share of frames that take longer", .colour = kGrey, .x = {}, .y = {}};
  const auto count = static_cast<double>(s.latency_us.size());
  for (std::size_t i = 0; i < s.latency_us.size(); ++i) {
    curve.x.push_back(s.latency_us[i]);
    curve.y.push_back((count - static_cast<double>(i)) / count);
  }
  return draw_plot({.title = "Latency: complete frame to correction handed over",
                    .x_label = "us",
                    .y_label = "share",
                    .log_x = true,
                    .log_y = true},
                   {curve});
}

std::string markers(const RecordSummary& s) {
  std::vector<Row> rows;
  for (const MarkerHealth& m : s.markers) {
    std::string others;
    for (const auto& [health, frames] : m.health) {
      if (health == "good") continue;
      others += (others.empty() ? "" : ", ") + health + " " +
                share_of(static_cast<double>(frames), static_cast<double>(m.frames));
    }
    const auto good = m.health.find("good");
    const double good_frames = good == m.health.end() ? 0 : static_cast<double>(good->second);
    rows.push_back({std::to_string(m.id), m.witness ? "witness" : "tracking",
                    share_of(good_frames, static_cast<double>(m.frames)), number(m.sd_nm, 2),
                    number(m.residual_nm, 2), number(m.sigma_px, 3), number(m.amplitude_adu, 0),
                    others});
    if (s.z_frames == 0) continue;
    rows.back().push_back(m.z_frames > 0 ? number(m.z_sd_nm, 1) : "-");
    rows.back().push_back(m.z_frames > 0 ? number(m.residual_z_nm, 1) : "-");
  }
  Row heading = {"marker",
                 "role",
                 "good",
                 "its fits promise (nm)",
                 "residual rms (nm)",
                 "sigma (px)",
                 "amplitude (adu)",
                 "otherwise"};
  if (s.z_frames > 0) heading.insert(heading.end(), {"promised in z (nm)", "residual z, rms (nm)"});
  return table(heading, rows);
}

std::string events(const RecordSummary& s) {
  std::vector<Row> rows;
  for (const record::Event& event : s.events) {
    if (rows.size() == kMostEvents) break;
    rows.push_back({utc(event.wall_ns), event.level, event.code, event.text});
  }
  std::string html = table({"when", "level", "code", "text"}, rows);
  if (s.events.size() > kMostEvents)
    html += fmt::format("<p>and {} more</p>\n", s.events.size() - kMostEvents);
  return html;
}

constexpr const char* kStyle =
    "body{font-family:DejaVu Sans,Helvetica,Arial,sans-serif;max-width:900px;margin:2em "
    "auto;color:#202020;font-size:14px}h1{font-size:22px}h2{font-size:17px;margin-top:1.6em}"
    "table{border-collapse:collapse}th,td{border:1px solid #d8d8d8;padding:3px "
    "8px;text-align:left;vertical-align:top}th{background:#f4f4f4;font-weight:normal}"
    "svg{max-width:100%;height:auto;display:block}pre{white-space:pre-wrap}";

}  // namespace

std::string report_page(const RecordSummary& s, const record::Header& header,
                        const std::string& end) {
  const std::string title = "driftd record " + header.series;
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" +
         escaped(title) + "</title><style>" + kStyle + "</style></head><body>\n<h1>" +
         escaped(title) + "</h1>\n" + facts(s, header, end) + "<h2>Drift and correction</h2>\n" +
         drift_plots(s) + "<h2>Residual while locked</h2>\n" + analysis(s) +
         pattern_plots(s.pattern) + "<h2>Lost time</h2>\n" + lost_time(s.spans) +
         (s.z_lock.engaged ? "<h2>Lost time of z</h2>\n" + lost_time(s.z_lock.spans) : "") +
         "<h2>Latency</h2>\n" + latency(s) + "<h2>Markers</h2>\n" + markers(s) +
         "<h2>Events</h2>\n" + events(s) + "<details><summary>configuration</summary><pre>" +
         escaped(header.configuration) + "</pre></details>\n</body></html>\n";
}

void add_report(CLI::App& app) {
  struct Options {
    std::vector<std::filesystem::path> files;
    std::filesystem::path output;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Make a page of a record (HTML with its plots, one file) to send to a colleague. Needs no "
      "daemon");
  command->add_option("record", options->files, "Files of one recording")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("-o,--output", options->output,
                      "The page; without: the first file's name with .html");
  command->callback([options] {
    const RecordFiles record(options->files);
    const RecordSummary summary = summarise(record);
    if (summary.frames == 0)
      throw std::runtime_error(record.files().front().path().string() + ": has no frame");
    std::filesystem::path output = options->output;
    if (output.empty())
      output = record.files().front().path().filename().replace_extension(".html");
    TextOutput page(output, options->files);
    page.write(report_page(summary, record.header(), record.end()));
    page.keep();
    fmt::print("{}\n", output.string());
  });
}

}  // namespace driftd::clients
