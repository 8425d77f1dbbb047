// SPDX-License-Identifier: MIT
#include "clients/demo/plot.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "clients/demo/child_process.hpp"

namespace driftd::clients {
namespace {

constexpr std::size_t kRowsAtMost = 6000;  // keeps the SVG below a megabyte
constexpr double kGap_s = 0.1;             // without truth: the simulator itself got no time to run

/// One row of the data file: t_s, and x, y of drift, of drift without the lock, of the residual;
/// where z is held the same three of z.
constexpr std::size_t kFlatColumns = 7, kColumns = 10;
using Row = std::array<double, kColumns>;

std::vector<Row> make_rows(const Recording& recording, const Phases& phases) {
  const PerAxis start_nm = start_of(recording, phases.unlocked_ns);
  const auto reference = reference_of(recording, phases.lock_ns);
  const Recording z = recording.axial();
  const double start_z_nm = start_of(z, phases.unlocked_ns)[kX];
  const auto z_reference = reference_of(z, phases.lock_ns);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<Row> rows;
  double stage_z_nm = 0;
  std::optional<PerAxis>
      stage_nm;  // where the stage was at the start, as displacement of the image
  for (const TrueFrame& frame : recording.truth()) {
    if (frame.time_ns < phases.unlocked_ns || frame.time_ns >= phases.end_ns) continue;
    if (!stage_nm) {
      stage_nm = {frame.sample_nm[kX] - frame.disturbance_nm[kX],
                  frame.sample_nm[kY] - frame.disturbance_nm[kY]};
      stage_z_nm = frame.sample_z_nm - frame.disturbance_z_nm;
    }
    Row row{static_cast<double>(frame.time_ns - phases.unlocked_ns) * 1e-9};
    const bool locked = reference && frame.time_ns >= reference->locked_ns;
    for (const std::size_t axis : {kX, kY}) {
      row[1 + axis] = frame.sample_nm[axis] - start_nm[axis];
      row[3 + axis] = frame.disturbance_nm[axis] + (*stage_nm)[axis] - start_nm[axis];
      row[5 + axis] = locked ? frame.sample_nm[axis] - reference->sample_nm[axis] : kNone;
    }
    row[7] = frame.sample_z_nm - start_z_nm;
    row[8] = frame.disturbance_z_nm + stage_z_nm - start_z_nm;
    row[9] = z_reference && frame.time_ns >= z_reference->locked_ns
                 ? frame.sample_z_nm - z_reference->sample_nm[kX]
                 : kNone;
    rows.push_back(row);
  }
  return rows;
}

/// Keeps two rows of each short span of time. They hold, column by column, the smallest and the
/// largest values in it, so that a thinned curve reaches as far as the full one.
std::vector<Row> thin(const std::vector<Row>& rows) {
  if (rows.size() <= kRowsAtMost) return rows;
  const double span_s = 2 * (rows.back()[0] - rows.front()[0]) / kRowsAtMost;
  std::vector<Row> thinned;
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end = std::find_if(begin, rows.end(),
                                  [&](const Row& row) { return row[0] >= (*begin)[0] + span_s; });
    Row low = *begin;
    Row high = *begin;
    high[0] = std::prev(end)->front();
    for (std::size_t column = 1; column < kColumns; ++column) {
      for (auto row = begin; row != end; ++row) {
        low[column] = std::min(low[column], (*row)[column]);
        high[column] = std::max(high[column], (*row)[column]);
      }
    }
    thinned.push_back(low);
    thinned.push_back(high);
    begin = end;
  }
  return thinned;
}

void write_data(const std::vector<Row>& rows, bool with_z, const std::filesystem::path& file) {
  std::ofstream out(file);
  out << "# t_s\tdrift_x_nm\tdrift_y_nm\tunlocked_x_nm\tunlocked_y_nm\tresidual_x_nm"
         "\tresidual_y_nm"
      << (with_z ? "\tdrift_z_nm\tunlocked_z_nm\tresidual_z_nm\n" : "\n");
  double last_s = 0;
  for (const Row& row : rows) {
    if (row[0] > last_s + kGap_s) out << '\n';  // gnuplot draws no line across a blank one
    last_s = row[0];
    out << fmt::format("{:.4f}", row[0]);
    for (std::size_t column = 1; column < (with_z ? kColumns : kFlatColumns); ++column) {
      out << fmt::format("\t{:.4f}", row[column]);
    }
    out << '\n';
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

constexpr const char* kPicture = R"gp(
set multiplot
set datafile missing "nan"
set lmargin at screen 0.075
set rmargin at screen 0.84
set border 3 lc rgb "#606060"
set tics nomirror out scale 0.6 textcolor rgb "#303030"
set grid ytics lc rgb "#e4e4e4" lt 1
set xrange [0:t_end]
unset key
set object 1 rectangle from t_away, graph 0 to t_back, graph 1 fc rgb "#f6d5d5" fs solid noborder behind
set arrow 1 from t_lock, graph 0 to t_lock, graph 1 nohead lc rgb "#808080" dt 3 lw 1.5

set tmargin at screen top_1
set bmargin at screen bottom_1
set format x ""
set ylabel "true drift (nm)" offset 0.5
set label 1 "lock" at t_lock, graph 0.05 offset 0.7 textcolor rgb "#606060"
set label 2 "camera away" at t_away, graph 0.05 right offset -0.7 textcolor rgb "#a04040"
set label 3 "True position of the simulated sample" at graph 0, 1.06 font ",14"
set label 4 "x" at t_end, end_x offset 1 textcolor rgb "#1660a8"
set label 5 "y" at t_end, end_y offset 1 textcolor rgb "#d1541b"
set label 6 "x, had it stayed unlocked" at t_end, end_free_x offset 1 textcolor rgb "#6f9fc8" font ",11"
set label 7 "y, had it stayed unlocked" at t_end, end_free_y offset 1 textcolor rgb "#d99a78" font ",11"
@labels_z@plot data using 1:4 with lines lc rgb "#a9cbe8" lw 1.5, \
     data using 1:5 with lines lc rgb "#f4c3a8" lw 1.5, \
     data using 1:2 with lines lc rgb "#1660a8" lw 1.8, \
     data using 1:3 with lines lc rgb "#d1541b" lw 1.8@drift_z@

unset label
set tmargin at screen top_2
set bmargin at screen bottom_2
@time_flat@set ylabel "residual (nm)" offset 0.5
set yrange [-zoom:zoom]
set label 1 "@x_and_y@ocked, enlarged" at graph 0, 1.06 font ",14"
set label 2 rms_x at graph 1, 0.62 offset 1 textcolor rgb "#1660a8" font ",11"
set label 3 rms_y at graph 1, 0.38 offset 1 textcolor rgb "#d1541b" font ",11"
plot data using 1:6 with lines lc rgb "#1660a8" lw 0.8, \
     data using 1:7 with lines lc rgb "#d1541b" lw 0.8
@residual_z@unset multiplot
unset label
unset arrow
unset object
unset xlabel
set autoscale y
)gp";

constexpr const char* kTimeAxis = R"gp(set format x "%g"
set xlabel "time (s)"
)gp";

/// Below those of x and y, whose noise is less.
constexpr const char* kResidualZ = R"gp(
unset label
set tmargin at screen top_3
set bmargin at screen bottom_3
@time@set yrange [-zoom_z:zoom_z]
set label 1 "z, locked, enlarged" at graph 0, 1.08 font ",14"
set label 2 rms_z at graph 1, 0.55 offset 1 textcolor rgb "#6b3fa0" font ",11"
plot data using 1:10 with lines lc rgb "#6b3fa0" lw 0.8
)gp";

/// The script, with z where it is held.
std::string picture(bool with_z) {
  std::string text = kPicture;
  const auto put = [&](const std::string& mark, const std::string& z,
                       const std::string& flat = "") {
    text.replace(text.find(mark), mark.size(), with_z ? z : flat);
  };
  put("@drift_z@",
      ", \\\n     data using 1:9 with lines lc rgb \"#d3c2ea\" lw 1.5, \\\n"
      "     data using 1:8 with lines lc rgb \"#6b3fa0\" lw 1.8");
  put("@labels_z@",
      "set label 8 \"z\" at t_end, end_z offset 1 textcolor rgb \"#6b3fa0\"\n"
      "set label 9 \"z, had it stayed unlocked\" at t_end, end_free_z offset 1 textcolor rgb "
      "\"#a58cc8\" font \",11\"\n");
  put("@x_and_y@", "x and y, l", "L");
  put("@time_flat@", "", kTimeAxis);
  put("@residual_z@", kResidualZ);
  if (with_z) put("@time@", kTimeAxis);
  return text;
}

/// Mean of a column over the last rows: where its curve ends.
double end_of(const std::vector<Row>& rows, std::size_t column) {
  const std::size_t count = std::min<std::size_t>(rows.size(), 100);
  double sum = 0;
  for (const Row& row : std::span(rows).last(count)) sum += row[column];
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

void write_script(const std::vector<Row>& rows, const Phases& phases, const Report& report,
                  const std::filesystem::path& file) {
  const auto since_start = [&](std::int64_t time_ns) {
    return static_cast<double>(time_ns - phases.unlocked_ns) * 1e-9;
  };
  const double largest = std::max(report.residual_rms_nm[kX], report.residual_rms_nm[kY]);
  std::ofstream out(file);
  out << "# Drawn by driftd-demo; run `gnuplot drift.gp` here to draw it again.\n"
         "data = 'drift.tsv'\n";
  out << fmt::format("t_lock = {:.3f}\nt_away = {:.3f}\nt_back = {:.3f}\nt_end = {:.3f}\n",
                     since_start(phases.lock_ns), since_start(phases.fault_ns),
                     since_start(phases.fault_ns) + report.reconnect_s.value_or(report.away_s),
                     since_start(phases.end_ns));
  out << fmt::format("end_x = {:.1f}\nend_y = {:.1f}\nend_free_x = {:.1f}\nend_free_y = {:.1f}\n",
                     end_of(rows, 1), end_of(rows, 2), end_of(rows, 3), end_of(rows, 4));
  out << fmt::format("zoom = {:.1f}\n", std::max(1.0, 6 * largest));
  for (const std::size_t axis : {kX, kY}) {
    const char name = axis == kX ? 'x' : 'y';
    out << fmt::format("rms_{} = \"{}: {:.2f} nm rms\\n(unlocked: {:.0f} nm)\"\n", name, name,
                       report.residual_rms_nm[axis], report.unlocked_rms_nm[axis]);
  }
  if (report.z) {
    out << fmt::format("end_z = {:.1f}\nend_free_z = {:.1f}\n", end_of(rows, 7), end_of(rows, 8));
    out << fmt::format("zoom_z = {:.1f}\n", std::max(1.0, 6 * report.z->residual_rms_nm));
    out << fmt::format("rms_z = \"z: {:.2f} nm rms\\n(unlocked: {:.0f} nm)\"\n",
                       report.z->residual_rms_nm, report.z->unlocked_rms_nm);
  }
  out << (report.z ? "top_1 = 0.95; bottom_1 = 0.63; top_2 = 0.57; bottom_2 = 0.35\n"
                     "top_3 = 0.29; bottom_3 = 0.07\n"
                   : "top_1 = 0.93; bottom_1 = 0.53; top_2 = 0.45; bottom_2 = 0.09\n");
  const std::string drawn = picture(report.z.has_value());
  out << fmt::format(
      "set terminal pngcairo size 1400,{} font 'DejaVu Sans,13'\nset output 'drift.png'\n{}"
      "set terminal svg size 1000,{} font 'DejaVu Sans,13' background '#ffffff'\n"
      "set output 'drift.svg'\n{}",
      report.z ? 1300 : 1000, drawn, report.z ? 929 : 714, drawn);
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

std::optional<std::filesystem::path> find_program(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path program = std::filesystem::path(folder) / name;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return std::nullopt;
}

}  // namespace

std::string draw_plot(const Recording& recording, const Phases& phases, const Report& report,
                      const std::filesystem::path& folder) {
  const std::vector<Row> rows = make_rows(recording, phases);
  write_data(thin(rows), report.z.has_value(), folder / "drift.tsv");
  write_script(rows, phases, report, folder / "drift.gp");
  const auto gnuplot = find_program("gnuplot");
  if (!gnuplot) return "No picture: gnuplot is not installed (Debian: gnuplot-nox).";

  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  ChildProcess drawing(*gnuplot, {"drift.gp"}, "gnuplot.log");
  std::filesystem::current_path(before);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!drawing.ended() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::string how = drawing.ended().value_or("did not come to an end");
  if (how != "exited with code 0") return "No picture: gnuplot " + how + "; see gnuplot.log.";
  return "Picture: " + (folder / "drift.png").string() + " (and .svg)";
}

}  // namespace driftd::clients
