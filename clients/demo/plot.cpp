// SPDX-License-Identifier: MIT
#include "clients/demo/plot.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

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

/// One row of the data file: t_s, and x, y of drift, of drift without the lock, of the residual.
constexpr std::size_t kColumns = 7;
using Row = std::array<double, kColumns>;

std::vector<Row> make_rows(const Recording& recording, const Phases& phases) {
  const PerAxis start_nm = start_of(recording, phases.unlocked_ns);
  const auto reference = reference_of(recording, phases.lock_ns);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<Row> rows;
  std::optional<PerAxis>
      stage_nm;  // where the stage was at the start, as displacement of the image
  for (const TrueFrame& frame : recording.truth()) {
    if (frame.time_ns < phases.unlocked_ns || frame.time_ns >= phases.end_ns) continue;
    if (!stage_nm) {
      stage_nm = {frame.sample_nm[kX] - frame.disturbance_nm[kX],
                  frame.sample_nm[kY] - frame.disturbance_nm[kY]};
    }
    Row row{static_cast<double>(frame.time_ns - phases.unlocked_ns) * 1e-9};
    const bool locked = reference && frame.time_ns >= reference->locked_ns;
    for (const std::size_t axis : {kX, kY}) {
      row[1 + axis] = frame.sample_nm[axis] - start_nm[axis];
      row[3 + axis] = frame.disturbance_nm[axis] + (*stage_nm)[axis] - start_nm[axis];
      row[5 + axis] = locked ? frame.sample_nm[axis] - reference->sample_nm[axis] : kNone;
    }
    rows.push_back(row);
  }
  return rows;
}

/// Of every group of rows two that hold, column by column, its smallest and its largest values, so
/// that a thinned curve spans what the full one does.
std::vector<Row> thin(const std::vector<Row>& rows) {
  const std::size_t group = 2 * rows.size() / kRowsAtMost + 1;
  if (group <= 2) return rows;
  std::vector<Row> thinned;
  for (std::size_t begin = 0; begin < rows.size(); begin += group) {
    const auto part = std::span(rows).subspan(begin, std::min(group, rows.size() - begin));
    Row low = part.front();
    Row high = part.back();
    for (std::size_t column = 1; column < kColumns; ++column) {
      low[column] = high[column] = part.front()[column];
      for (const Row& row : part) {
        low[column] = std::min(low[column], row[column]);
        high[column] = std::max(high[column], row[column]);
      }
    }
    thinned.push_back(low);
    thinned.push_back(high);
  }
  return thinned;
}

void write_data(const std::vector<Row>& rows, const std::filesystem::path& file) {
  std::ofstream out(file);
  out << "# t_s\tdrift_x_nm\tdrift_y_nm\tunlocked_x_nm\tunlocked_y_nm\tresidual_x_nm"
         "\tresidual_y_nm\n";
  for (const Row& row : rows) {
    out << fmt::format("{:.4f}", row[0]);
    for (std::size_t column = 1; column < kColumns; ++column) {
      out << fmt::format("\t{:.4f}", row[column]);
    }
    out << '\n';
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

constexpr const char* kPicture = R"gp(
set multiplot
set datafile missing "nan"
set lmargin at screen 0.085
set rmargin at screen 0.975
set border 3 lc rgb "#606060"
set tics nomirror out scale 0.6 textcolor rgb "#303030"
set grid ytics lc rgb "#e4e4e4" lt 1
set xrange [0:t_end]
set key top left Left reverse horizontal samplen 2 spacing 1.2
set style arrow 1 nohead lc rgb "#808080" dt 3 lw 1.5
set object 1 rectangle from t_away, graph 0 to t_back, graph 1 fc rgb "#f6d5d5" fs solid noborder behind
set arrow 1 from t_lock, graph 0 to t_lock, graph 1 arrowstyle 1

set tmargin at screen 0.94
set bmargin at screen 0.53
set format x ""
set ylabel "true drift (nm)" offset 0.5
set label 1 "lock" at t_lock, graph 0.04 offset 0.7 textcolor rgb "#606060"
set label 2 "camera away" at t_away, graph 0.04 offset 0.7 textcolor rgb "#a04040"
set label 3 headline at screen 0.085, 0.975 font ",14"
plot data using 1:4 with lines lc rgb "#9cc3e6" lw 1.5 dt 2 title "x, had it stayed unlocked", \
     data using 1:5 with lines lc rgb "#f2b99a" lw 1.5 dt 2 title "y, had it stayed unlocked", \
     data using 1:2 with lines lc rgb "#1660a8" lw 1.8 title "x", \
     data using 1:3 with lines lc rgb "#d1541b" lw 1.8 title "y"

unset label 2
unset label 3
set tmargin at screen 0.45
set bmargin at screen 0.09
set format x "%g"
set xlabel "time (s)"
set ylabel "residual (nm)" offset 0.5
set yrange [-zoom:zoom]
set label 1 subline at graph 0, 1.05
plot data using 1:6 with lines lc rgb "#1660a8" lw 0.8 title "x", \
     data using 1:7 with lines lc rgb "#d1541b" lw 0.8 title "y"
unset multiplot
unset label
unset arrow
unset object
set autoscale y
unset xlabel
)gp";

void write_script(const Phases& phases, const Report& report, const std::filesystem::path& file) {
  const auto since_start = [&](std::int64_t time_ns) {
    return static_cast<double>(time_ns - phases.unlocked_ns) * 1e-9;
  };
  std::ofstream out(file);
  out << "# Drawn by driftd-demo; run `gnuplot drift.gp` here to draw it again.\n";
  out << "data = 'drift.tsv'\n";
  out << fmt::format("t_lock = {:.3f}\nt_away = {:.3f}\nt_back = {:.3f}\nt_end = {:.3f}\n",
                     since_start(phases.lock_ns), since_start(phases.fault_ns),
                     since_start(phases.fault_ns) + report.reconnect_s.value_or(report.away_s),
                     since_start(phases.end_ns));
  const double largest = std::max(report.residual_rms_nm[kX], report.residual_rms_nm[kY]);
  out << fmt::format("zoom = {:.1f}\n", std::max(1.0, 6 * largest));
  out << "headline = 'True position of the simulated sample'\n";
  out << fmt::format(
      "subline = 'Locked, enlarged: rms {:.2f} nm in x, {:.2f} nm in y; the same time "
      "unlocked: {:.0f} nm, {:.0f} nm'\n",
      report.residual_rms_nm[kX], report.residual_rms_nm[kY], report.unlocked_rms_nm[kX],
      report.unlocked_rms_nm[kY]);
  out << "set terminal pngcairo size 1400,1000 font 'DejaVu Sans,13'\nset output 'drift.png'\n"
      << kPicture
      << "set terminal svg size 1000,714 font 'DejaVu Sans,13' background '#ffffff'\n"
         "set output 'drift.svg'\n"
      << kPicture;
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
  write_data(thin(make_rows(recording, phases)), folder / "drift.tsv");
  write_script(phases, report, folder / "drift.gp");
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
