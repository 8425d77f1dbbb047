// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/export.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/counted.hpp"
#include "base/process/option_range.hpp"
#include "base/time_text.hpp"
#include "clients/driftctl/records/frame_times.hpp"
#include "clients/driftctl/records/record_files.hpp"
#include "clients/driftctl/records/science_drift.hpp"
#include "clients/driftctl/records/table_csv.hpp"
#include "clients/driftctl/records/text_output.hpp"

namespace driftd::clients {
namespace {

namespace fs = std::filesystem;

enum class Format { Csv, Hdf5, Picasso, Thunderstorm };
enum class Clock { Wall, Monotonic };
enum class At { Begin, Middle, End };

struct ExportOptions {
  std::vector<fs::path> files;
  fs::path output, times, frame_ids;
  Format format = Format::Csv;
  Clock clock = Clock::Wall;
  TimeUnit unit = TimeUnit::Seconds;
  At at = At::Begin;
  int column = 1;
  bool column_told = false, decimal_comma = false, no_decimal_comma = false;
  double exposure_ms = 0, pixel_size_nm = 0;
  std::vector<double> matrix = {1, 0, 0, 1};
};

/// A time as people read it, of the clock that it is of.
std::string time_in_words(Clock clock, std::int64_t ns) {
  return clock == Clock::Wall ? date_time_text(ns)
                              : fmt::format("{:.3f} s", static_cast<double>(ns) * 1e-9);
}

/// @throws std::runtime_error where none of another camera's frames has a drift
void check_any_measured(const std::vector<ScienceDrift>& drifts, const ExportOptions& options,
                        const DriftCurve& curve, const std::vector<std::int64_t>& times_ns) {
  if (std::ranges::any_of(drifts, &ScienceDrift::measured)) return;
  const auto [least, most] = std::ranges::minmax(times_ns);
  const bool by_wall = options.clock == Clock::Wall;
  const auto of_record = [&](const DriftCurve::Place& place) {
    return time_in_words(options.clock, by_wall ? place.wall_ns : place.taken_ns);
  };
  throw std::runtime_error(fmt::format(
      "{}: at none of its {} the record has a drift: they go from {} to {}, the record's frames "
      "with a drift from {} to {}{}. Is it the record of that time? --unit, --column, --clock or "
      "an "
      "offset from UTC may be wrong",
      options.times.string(), counted(times_ns.size(), "time"), time_in_words(options.clock, least),
      time_in_words(options.clock, most), of_record(curve.first()), of_record(curve.last()),
      by_wall ? "" : " of CLOCK_MONOTONIC"));
}

/// The drift while the other camera exposed, by the list of times that the user gave.
std::vector<ScienceDrift> drifts_at_times(const ExportOptions& options, const DriftCurve& curve,
                                          const WallClock& wall) {
  const bool by_wall = options.clock == Clock::Wall;
  if (by_wall && wall.empty())
    throw std::runtime_error("the record has no reading of the wall clock");
  const auto length_ns = std::llround(options.exposure_ms * 1e6);
  std::vector<ScienceDrift> drifts;
  std::size_t not_joined = 0;
  const FrameTimes times =
      read_times(options.times, {.column = options.column,
                                 .told = options.column_told,
                                 .unit = options.unit,
                                 .decimal_comma = options.decimal_comma,
                                 .no_decimal_comma = options.no_decimal_comma});
  if (times.dates && !by_wall)
    throw std::runtime_error(options.times.string() +
                             ": has dates, which --clock monotonic knows nothing of");
  for (const std::string& note : times.notes) fmt::print(stderr, "note: {}\n", note);
  for (const std::int64_t told_ns : times.ns) {
    const auto joined_ns = by_wall ? wall.monotonic_ns(told_ns) : std::optional(told_ns);
    if (!joined_ns) {
      ++not_joined;
      drifts.push_back(not_measured());
      continue;
    }
    std::int64_t begin_ns = *joined_ns;
    if (options.at == At::Middle) begin_ns -= length_ns / 2;
    if (options.at == At::End) begin_ns -= length_ns;
    drifts.push_back(curve.over({begin_ns, begin_ns + length_ns}));
  }
  if (by_wall && wall.steps() > 0) {
    fmt::print(stderr,
               "note: the host's clock was set {} during the record; {} of the times it "
               "passed twice or never, and they have no drift\n",
               counted(wall.steps(), "time"), not_joined);
  }
  check_any_measured(drifts, options, curve, times.ns);
  return drifts;
}

/// @param curve  an empty one, which the record fills
std::vector<ScienceDrift> drifts_of(const ExportOptions& options, const RecordFiles& record,
                                    DriftCurve& curve) {
  record.each_frames([&](std::span<const record::FrameRow> rows) { curve.add(rows); });
  if (curve.empty()) throw std::runtime_error("the record has no frame with a drift");
  std::vector<ScienceDrift> drifts;
  if (!options.frame_ids.empty()) {
    std::vector<std::uint64_t> ids;
    for (const std::string& text :
         read_column(options.frame_ids, options.column, options.column_told)) {
      ids.push_back(frame_number(text));
      drifts.push_back(curve.at_frame(ids.back()));
    }
    if (std::ranges::none_of(drifts, &ScienceDrift::measured)) {
      const auto [least, most] = std::ranges::minmax(ids);
      throw std::runtime_error(fmt::format(
          "{}: none of its {} is that of a frame with a drift: they go from {} to {}, the record's "
          "from {} to {}",
          options.frame_ids.string(), counted(ids.size(), "number"), least, most,
          curve.first().frame_id, curve.last().frame_id));
    }
  } else {
    const WallClock wall(record.clock());
    drifts = drifts_at_times(options, curve, wall);
    if (options.clock == Clock::Wall) {
      const std::int64_t utc_ns = wall.utc_error_ns();
      fmt::print(stderr, "the host's clock is joined to within {:.1f} us; {}\n",
                 static_cast<double>(wall.uncertainty_ns()) * 1e-3,
                 utc_ns < 0 ? "no time server kept it, or the kernel did not tell: another "
                              "computer's times may be off by more"
                            : fmt::format("it was within {:.3f} ms of UTC by the kernel's word",
                                          static_cast<double>(utc_ns) * 1e-6));
    }
  }
  for (const std::string& note : curve.notes()) fmt::print(stderr, "note: {}\n", note);
  const std::array<double, 4> m = {options.matrix[0], options.matrix[1], options.matrix[2],
                                   options.matrix[3]};
  for (ScienceDrift& d : drifts) {
    d = {m[0] * d.x_nm + m[1] * d.y_nm,
         m[2] * d.x_nm + m[3] * d.y_nm,
         std::hypot(m[0] * d.x_sd_nm, m[1] * d.y_sd_nm),
         std::hypot(m[2] * d.x_sd_nm, m[3] * d.y_sd_nm),
         d.frames,
         d.measured,
         d.z_nm,
         d.z_sd_nm};
  }
  return drifts;
}

/// Picasso wants a number for every frame: those without lie on the line between their neighbours.
std::vector<ScienceDrift> without_gaps(std::vector<ScienceDrift> drifts) {
  std::size_t last = drifts.size();  // measured before
  for (std::size_t i = 0; i < drifts.size(); ++i) {
    if (!drifts[i].measured) continue;
    const std::size_t first = last == drifts.size() ? 0 : last + 1;
    for (std::size_t k = first; k < i; ++k) {
      const ScienceDrift& left = last == drifts.size() ? drifts[i] : drifts[last];
      const double share =
          last == drifts.size() ? 0 : static_cast<double>(k - last) / static_cast<double>(i - last);
      drifts[k].x_nm = left.x_nm + share * (drifts[i].x_nm - left.x_nm);
      drifts[k].y_nm = left.y_nm + share * (drifts[i].y_nm - left.y_nm);
    }
    last = i;
  }
  for (std::size_t k = last + 1; k < drifts.size(); ++k) {
    drifts[k].x_nm = drifts[last].x_nm;
    drifts[k].y_nm = drifts[last].y_nm;
  }
  return drifts;
}

/// As Picasso's own files (numpy.savetxt): x y in pixels of the other camera.
void write_picasso(TextOutput& out, const std::vector<ScienceDrift>& drifts, double pixel_nm) {
  for (const ScienceDrift& d : without_gaps(drifts))
    out.write(fmt::format("{:.18e} {:.18e}\r\n", d.x_nm / pixel_nm, d.y_nm / pixel_nm));
}

/// The drift as ThunderSTORM's table of one fiducial marker; frames count from 1, and those without
/// a drift are left out.
void write_thunderstorm(TextOutput& out, const std::vector<ScienceDrift>& drifts) {
  out.write(
      "\"id\",\"frame\",\"x [nm]\",\"y [nm]\",\"sigma [nm]\",\"intensity [photon]\",\"offset "
      "[photon]\",\"bkgstd [photon]\",\"uncertainty_xy [nm]\"\n");
  constexpr const char* kNoSpot = "1.0,1.0,0.0,0.0";  // what a spot has and a drift has not
  int id = 0;
  for (std::size_t i = 0; i < drifts.size(); ++i) {
    const ScienceDrift& d = drifts[i];
    if (!d.measured) continue;
    out.write(fmt::format("{:.1f},{:.1f},{:.4f},{:.4f},{},{:.4f}\n", static_cast<double>(++id),
                          static_cast<double>(i + 1), d.x_nm, d.y_nm, kNoSpot,
                          std::sqrt(0.5 * (d.x_sd_nm * d.x_sd_nm + d.y_sd_nm * d.y_sd_nm))));
  }
}

/// @param with_z  columns more, of a record with z
void write_drift_csv(TextOutput& out, const std::vector<ScienceDrift>& drifts, bool with_z) {
  out.write(fmt::format("frame,x_nm,y_nm,x_sd_nm,y_sd_nm,frames_averaged{}\n",
                        with_z ? ",z_nm,z_sd_nm" : ""));
  for (std::size_t i = 0; i < drifts.size(); ++i) {
    const ScienceDrift& d = drifts[i];
    std::string line = d.measured ? fmt::format("{},{:.4f},{:.4f},{:.4f},{:.4f},{}", i, d.x_nm,
                                                d.y_nm, d.x_sd_nm, d.y_sd_nm, d.frames)
                                  : fmt::format("{},,,,,0", i);
    if (with_z)
      line += std::isfinite(d.z_nm) ? fmt::format(",{:.4f},{:.4f}", d.z_nm, d.z_sd_nm) : ",,";
    out.write(line + '\n');
  }
}

void export_drift(const ExportOptions& options, const RecordFiles& record) {
  if (options.format == Format::Hdf5)
    throw std::runtime_error("--format hdf5 is the whole record: without --times and --frame-ids");
  if (options.format == Format::Picasso && !(options.pixel_size_nm > 0)) {
    throw std::runtime_error(
        "Picasso counts in pixels of the other camera: --pixel-size-nm says how large one is in "
        "the sample");
  }
  DriftCurve curve;
  const std::vector<ScienceDrift> drifts = drifts_of(options, record, curve);
  std::vector<fs::path> inputs = options.files;
  inputs.insert(inputs.end(), {options.times, options.frame_ids});
  TextOutput out(options.output, inputs);
  if (options.format == Format::Picasso) write_picasso(out, drifts, options.pixel_size_nm);
  if (options.format == Format::Thunderstorm) write_thunderstorm(out, drifts);
  if (options.format == Format::Csv) write_drift_csv(out, drifts, curve.has_z());
  out.keep();
  std::size_t missing = 0;
  for (const ScienceDrift& d : drifts) missing += d.measured ? 0 : 1;
  fmt::print("{}: the drift in {}", options.output.string(), counted(drifts.size(), "frame"));
  if (missing > 0) {
    fmt::print(", {} of them without a measurement{}", missing,
               options.format == Format::Picasso ? ", which lie between their neighbours" : "");
  }
  fmt::print("\n");
}

void export_tables(const fs::path& folder, const RecordFiles& record) {
  fs::create_directories(folder);
  const auto table = [&](const record::TableLayout& layout, auto write_rows) {
    TextOutput out(folder / (std::string(layout.name) + ".csv"));
    out.write(csv_heading(layout));
    write_rows(out);
    out.keep();
  };
  const auto rows = [&](const record::TableLayout& layout, const auto& all) {
    table(layout, [&](TextOutput& out) { out.write(csv_lines(layout, all.data(), all.size())); });
  };
  table(record::frames_layout(), [&](TextOutput& out) {
    record.each_frames([&](std::span<const record::FrameRow> some) {
      out.write(csv_lines(record::frames_layout(), some.data(), some.size()));
    });
  });
  table(record::localizations_layout(), [&](TextOutput& out) {
    record.each_localizations([&](std::span<const record::LocalizationRow> some) {
      out.write(csv_lines(record::localizations_layout(), some.data(), some.size()));
    });
  });
  rows(record::stage_layout(), record.stage());
  rows(record::clock_layout(), record.clock());
  rows(record::counters_layout(), record.counters());
  table(record::events_layout(), [&](TextOutput& out) { out.write(csv_lines(record.events())); });
  rows(record::pattern_layout(), record.pattern());
  fmt::print("{}: one CSV file a table\n", folder.string());
}

/// A name beside a file's, until that is whole. What has it goes at the end.
struct Unfinished {
  explicit Unfinished(const fs::path& file) : path(file) {
    path += ".part-" + std::to_string(getpid());
  }
  ~Unfinished() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  fs::path path;
};

/// All files of a recording as one, with the daemon's own layout.
void export_hdf5(const fs::path& file, const RecordFiles& record) {
  if (fs::exists(file)) throw std::runtime_error(file.string() + ": is there already");
  const Unfinished unfinished(file);
  record::FileWriter out(unfinished.path, record.header(),
                         {.frames = 4096, .localizations = 32'768});
  record.each_frames([&](std::span<const record::FrameRow> rows) { out.append(rows); });
  record.each_localizations(
      [&](std::span<const record::LocalizationRow> rows) { out.append(rows); });
  out.append(std::span<const record::StageRow>(record.stage()));
  out.append(std::span<const record::ClockRow>(record.clock()));
  out.append(std::span<const record::CounterRow>(record.counters()));
  out.append(std::span<const record::Event>(record.events()));
  out.append(std::span<const record::PatternRow>(record.pattern()));
  out.close(record.end());
  fs::rename(unfinished.path, file);
  fmt::print("{}: {} in one\n", file.string(), counted(record.files().size(), "file"));
}

void run_export(const ExportOptions& options) {
  const RecordFiles record(options.files);
  if (!options.times.empty() || !options.frame_ids.empty()) return export_drift(options, record);
  switch (options.format) {
    case Format::Csv:
      return export_tables(options.output, record);
    case Format::Hdf5:
      return export_hdf5(options.output, record);
    case Format::Picasso:
    case Format::Thunderstorm:
      throw std::runtime_error("the drift in which frames? --times FILE or --frame-ids FILE tells");
  }
}

}  // namespace

void add_export(CLI::App& app) {
  const auto o = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand(
      "export",
      "Write a record, or its drift in each frame of another camera, for other programs. Needs no "
      "daemon");
  command->add_option("record", o->files, "Files of one recording")
      ->required()
      ->check(CLI::ExistingFile);
  command
      ->add_option("-o,--output", o->output,
                   "What to write; of a whole record as csv: a folder, one file a table")
      ->required();
  const std::map<std::string, Format> formats = {{"csv", Format::Csv},
                                                 {"hdf5", Format::Hdf5},
                                                 {"picasso", Format::Picasso},
                                                 {"thunderstorm", Format::Thunderstorm}};
  command->add_option("--format", o->format, "csv, hdf5, picasso or thunderstorm")
      ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description(""))
      ->type_name("FORMAT");
  auto* times = command->add_option("--times", o->times,
                                    "When the other camera's frames were taken, one a line: a list "
                                    "or a trigger log");
  times->check(CLI::ExistingFile);
  command
      ->add_option("--frame-ids", o->frame_ids,
                   "Instead: the numbers (frame_id) of driftd's camera, one for each frame of the "
                   "other one, where one trigger starts both")
      ->check(CLI::ExistingFile)
      ->excludes(times);
  auto* column = command->add_option("--column", o->column, "In which column of the file they are");
  column->check(in_range(1, 1000, "POSITIVE"))->capture_default_str();
  command
      ->add_flag("--decimal-comma", o->decimal_comma,
                 "The times have a decimal comma, which ends no column")
      ->needs(times);
  command
      ->add_flag("--no-decimal-comma", o->no_decimal_comma,
                 "The times have none: each comma ends a column")
      ->needs(times)
      ->excludes("--decimal-comma");
  const std::map<std::string, Clock> clocks = {{"wall", Clock::Wall},
                                               {"monotonic", Clock::Monotonic}};
  command
      ->add_option(
          "--clock", o->clock,
          "wall: since 1970 UTC, or dates; monotonic: CLOCK_MONOTONIC of driftd's computer")
      ->transform(CLI::CheckedTransformer(clocks, CLI::ignore_case).description(""))
      ->type_name("CLOCK")
      ->needs(times);
  const std::map<std::string, TimeUnit> units = {{"s", TimeUnit::Seconds},
                                                 {"ms", TimeUnit::Milliseconds},
                                                 {"us", TimeUnit::Microseconds},
                                                 {"ns", TimeUnit::Nanoseconds}};
  command->add_option("--unit", o->unit, "Of the times: s (default), ms, us or ns")
      ->transform(CLI::CheckedTransformer(units).description(""))
      ->type_name("UNIT")
      ->needs(times);
  command
      ->add_option("--exposure-ms", o->exposure_ms,
                   "How long the other camera exposed: the drift is the mean over that time")
      ->check(in_range(0, 1e7, "NUMBER"))
      ->needs(times);
  const std::map<std::string, At> places = {
      {"begin", At::Begin}, {"middle", At::Middle}, {"end", At::End}};
  command->add_option("--at", o->at, "Of the exposure that the times tell: begin, middle or end")
      ->transform(CLI::CheckedTransformer(places, CLI::ignore_case).description(""))
      ->type_name("PLACE")
      ->needs(times);
  command->add_option("--pixel-size-nm", o->pixel_size_nm, "Of the other camera, for picasso")
      ->check(in_range(0.1, 1e5, "NUMBER"));
  command
      ->add_option("--matrix", o->matrix,
                   "a b c d: from driftd's image axes to the other camera's, x' = a x + b y, "
                   "y' = c x + d y")
      ->expected(4)
      ->check(in_range(-1e6, 1e6, "FLOAT"));
  command->callback([o, column] {
    o->column_told = column->count() > 0;
    if (o->matrix[0] * o->matrix[3] == o->matrix[1] * o->matrix[2]) {
      throw CLI::ValidationError(
          "--matrix",
          fmt::format("{:g} {:g} {:g} {:g} puts all drifts on one line: it has to have an inverse",
                      o->matrix[0], o->matrix[1], o->matrix[2], o->matrix[3]));
    }
    run_export(*o);
  });
}

}  // namespace driftd::clients
