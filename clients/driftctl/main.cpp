// SPDX-License-Identifier: MIT
// driftctl: look at and command a running driftd from a shell.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/command_line.hpp"
#include "base/counted.hpp"
#include "base/monotonic.hpp"
#include "base/process/option_range.hpp"
#include "base/process/stop_signal.hpp"
#include "clients/common/daemon_view.hpp"
#include "clients/common/display.hpp"
#include "clients/common/find_daemon.hpp"
#include "clients/common/measure/advice.hpp"
#include "clients/common/measure/measurement.hpp"
#include "clients/common/measure/recommendations.hpp"
#include "clients/common/plain.hpp"
#include "clients/common/subscriber.hpp"
#include "clients/driftctl/camera/snapshot_image.hpp"
#include "clients/driftctl/commands/calibrate_camera.hpp"
#include "clients/driftctl/commands/calibrate_stage.hpp"
#include "clients/driftctl/commands/exposure.hpp"
#include "clients/driftctl/commands/keep_snapshot.hpp"
#include "clients/driftctl/commands/keygen.hpp"
#include "clients/driftctl/commands/lock.hpp"
#include "clients/driftctl/commands/markers.hpp"
#include "clients/driftctl/commands/move.hpp"
#include "clients/driftctl/commands/place.hpp"
#include "clients/driftctl/doctor/command.hpp"
#include "clients/driftctl/records/export.hpp"
#include "clients/driftctl/records/record_report.hpp"
#include "clients/driftctl/shared/common_options.hpp"
#include "config/config.hpp"

namespace driftd::clients {
namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0  done\n"
    "  1  driftd refused the command, or answered something else than it should; doctor: "
    "something has to be mended\n"
    "  2  wrong usage\n"
    "  3  driftd is not there, may not be reached by this user, or did not answer in time\n"
    "  4  something else failed, such as writing the file\n";

constexpr int kQueueMessages = 10'000;

struct Options : CommonOptions {
  double watch_for_s = 0;  ///< 0: until interrupted
  double measure_s = 0;
  std::string snapshot_file;
  CalibrateStageOptions stage;
  DoctorOptions doctor;
  double snapshot_every_s = 0;  ///< 0: one
  double snapshot_for_s = 0;    ///< 0: until interrupted
};

void print_lines(const std::vector<Line>& lines) {
  for (const Line& line : lines) fmt::print("{}\n", line.text);
}

void print_status(const Options& options) {
  const Reply reply = send(options, {{"command", "status"}});
  if (options.json) {
    fmt::print("{}\n", reply.body.at("status").dump());
    return;
  }
  DaemonView view;
  const std::int64_t now_ns = monotonic_ns();
  view.set_status(reply.body.at("status"), now_ns);
  print_lines(view.summary(now_ns));
}

void change_state(const Options& options, const char* command) {
  print_state(options, send(options, {{"command", command}}).body);
}

/// A PNG is what is written, and other programs go by the name.
std::string check_png_name(const std::string& file) {
  std::string end = std::filesystem::path(file).extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (end == ".png") return {};
  return "'" + file + "' does not end in .png, and a PNG is what is written";
}

/// What systemd takes as an instance, less what would lead out of the folder of the sockets.
std::string check_instance(const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\";
  const bool plain = name.find_first_not_of(kAllowed) == std::string::npos;
  if (plain && !name.empty() && name.front() != '.') return {};
  return "'" + name + "' is not the name of an instance, such as lab of driftd@lab";
}

void save_snapshot(const Options& options) {
  if (options.snapshot_every_s > 0) {
    return keep_snapshot(
        {options.snapshot_file, options.snapshot_every_s, options.snapshot_for_s, options.json},
        [&] {
          return send(options, {{"command", "snapshot"}});
        });
  }
  const Reply reply = send(options, {{"command", "snapshot"}});
  const nlohmann::json& frame = reply.body.at("frame");
  const RgbImage image = draw_snapshot(frame, reply.attachment);
  write_png(image, options.snapshot_file);
  if (options.json) {
    fmt::print("{}\n", frame.dump());
  } else {
    fmt::print("frame {}: {} x {} pixels, {}, drawn to {}\n",
               frame.at("frame_id").get<std::uint64_t>(), frame.at("width_px").get<int>(),
               frame.at("height_px").get<int>(), counted(frame.at("rois").size(), "ROI"),
               options.snapshot_file);
  }
}

void record(const Options& options, const char* order) {
  nlohmann::json command{{"command", "record"}};
  if (order != nullptr) command[order] = true;
  const nlohmann::json body = send(options, command).body;
  if (options.json) {
    fmt::print("{}\n", body.dump());
    return;
  }
  const nlohmann::json& record = body.at("record");
  const std::string file = record.at("file").is_null() ? "" : record.at("file");
  const double megabytes = record.at("bytes").get<double>() * 1e-6;
  const auto frames = record.at("frames").get<std::uint64_t>();
  if (record.at("recording").get<bool>()) {
    fmt::print("recording for {:.0f} s to {}: {}, {:.1f} MB, by {}\n",
               record.at("seconds").get<double>(), file, counted(frames, "frame"), megabytes,
               record.at("by").get<std::string>());
  } else if (file.empty()) {
    fmt::print("not recording\n");
  } else {
    fmt::print("not recording; the last record: {}: {}, {:.1f} MB\n", file,
               counted(frames, "frame"), megabytes);
  }
  const auto left_out = record.at("not_recorded").get<std::uint64_t>();
  if (left_out > 0)
    fmt::print("{} left out: the disk was too slow\n",
               counted(left_out, "frame was", "frames were"));
  const std::string problem = record.at("problem");
  if (!problem.empty()) fmt::print("it ended: {}\n", problem);
}

void print_raw_frames(const Options& options) {
  const nlohmann::json status = send(options, {{"command", "status"}}).body.at("status");
  const nlohmann::json& raw = status.at("raw_frames");
  const std::string problem = raw.at("problem");
  if (raw.at("kept").get<bool>()) {
    fmt::print("raw frames: the last {} are kept in {:.0f} MB\n",
               raw.at("room_s").is_number()
                   ? fmt::format("{:.1f} s", raw.at("room_s").get<double>())
                   : fmt::format("{}", raw.at("room_frames").get<std::uint64_t>()),
               raw.at("memory_bytes").get<double>() * 1e-6);
  }
  if (raw.at("file").is_string())
    fmt::print("{} of raw frames, the last: {}\n",
               counted(raw.at("files").get<std::uint64_t>(), "file"),
               raw.at("file").get<std::string>());
  const auto not_kept = raw.at("not_kept").get<std::uint64_t>();
  if (not_kept > 0) {
    const bool fit = raw.at("room_frames").get<std::uint64_t>() > 0;
    fmt::print("{} not kept: {}\n", counted(not_kept, "raw frame was", "raw frames were"),
               fit ? "the disk was too slow" : "the memory is too little for one");
  }
  if (!problem.empty()) fmt::print("raw frames: {}\n", problem);
}

void save_raw_frames(const Options& options) {
  const nlohmann::json body = send(options, {{"command", "record"}, {"frames", true}}).body;
  if (options.json)
    fmt::print("{}\n", body.dump());
  else
    fmt::print("raw frames go to {}\n", body.at("file").get<std::string>());
}

void watch(const Options& options) {
  StopSignal stop;
  // Says at once when nobody is there, which a subscription alone never would.
  const std::vector<std::string> endpoints = publishers_of(options, true);
  Subscriber subscriber(endpoints, {}, kQueueMessages, sockets_of(options).keys);
  DaemonView view;
  view.set_status(send(options, {{"command", "status"}}).body.at("status"), monotonic_ns());
  Display display;
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(options.watch_for_s * 1e9);
  while (!stop.raised() && (options.watch_for_s <= 0 || monotonic_ns() < end_ns)) {
    const auto message = subscriber.receive(std::chrono::milliseconds(100));
    if (message) view.update(*message, monotonic_ns());
    if (!options.json) {
      display.show(view, "");
    } else if (message) {
      fmt::print("{} {}\n", plain(message->topic), plain(message->text));
      std::fflush(stdout);
    }
  }
}

void measure(const Options& options) {
  StopSignal stop;
  const std::vector<std::string> endpoints =
      publishers_of(options, false);  // nobody there: says so
  Subscriber subscriber(endpoints, {"position", "markers", "event"}, kQueueMessages,
                        sockets_of(options).keys);
  Measurement measurement;
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(options.measure_s * 1e9);
  while (!stop.raised() && monotonic_ns() < end_ns && measurement.problem().empty()) {
    const auto message = subscriber.receive(std::chrono::milliseconds(100));
    if (!message) continue;
    if (message->topic == "position") measurement.add_position(message->body);
    if (message->topic == "markers") measurement.add_markers(message->body);
    if (message->topic == "event") measurement.add_event(message->body);
  }
  if (!measurement.problem().empty())
    throw std::runtime_error(measurement.problem() + ": measure again");
  send(options, {{"command", "status"}});  // is it still there?
  const MeasurementReport report = measurement.report();
  const auto config =
      options.config.empty() ? std::nullopt : std::optional(config::load(options.config));
  const std::vector<Advice> to_do = recommendations(report, config);
  if (options.json) {
    nlohmann::json json = to_json(report);
    json["recommendations"] = to_json(to_do);
    fmt::print("{}\n", json.dump());
    return;
  }
  for (const std::string& line : to_lines(report)) fmt::print("{}\n", line);
  for (const Advice& one : to_do)
    fmt::print("{}{}\n", one.axis.empty() ? "" : one.axis + ": ", one.text);
}

void advise(const Options& options) {
  const nlohmann::json status = send(options, {{"command", "status"}}).body.at("status");
  const auto advice = clients::advice_of(status);
  if (options.json) {
    fmt::print("{}\n", to_json(advice).dump());
    return;
  }
  for (const clients::Advice& one : advice)
    fmt::print("{}{}\n", one.axis.empty() ? "" : "stage " + one.axis + ": ", one.text);
}

void add_commands(CLI::App& app, Options& options) {
  app.add_subcommand("status", "Print the state, the camera, the drift and the latency")
      ->callback([&] { print_status(options); });
  CLI::App* watching = app.add_subcommand(
      "watch", "The same and the markers, live, until Ctrl-C; one line a second into a pipe");
  watching->add_option("--for", options.watch_for_s, "Stop after this many seconds")
      ->check(in_range(1e-3, 1e8, "POSITIVE"));
  watching->callback([&] { watch(options); });
  app.add_subcommand("advise",
                     "Say how still the lock could be, what is left by what it comes from, which "
                     "vibrations there are, and what would help")
      ->callback([&] { advise(options); });
  CLI::App* measuring = app.add_subcommand(
      "measure",
      "Watch for some seconds, move nothing, and tell drift, noise, vibrations, Allan deviation "
      "and which markers hurt. Ctrl-C: of what has come until then");
  measuring->add_option("seconds", options.measure_s, "How long")
      ->required()
      ->check(in_range(1e-3, 21'600, "POSITIVE"));
  measuring->callback([&] { measure(options); });
  add_calibrate_camera(
      *add_calibrate(app, options, options.stage),
      {.request = [&](const nlohmann::json& command) { return send(options, command); },
       .config = [&] { return options.config; },
       .json = [&] { return options.json; }});
  add_lock(app, options);
  add_place(app, options);
  app.add_subcommand("unlock", "Stop correcting; the stage stays where it is")->callback([&] {
    change_state(options, "unlock");
  });
  app.add_subcommand("reset", "From lost or fault back to idle")->callback([&] {
    change_state(options, "reset");
  });
  add_move(app, options);
  add_access(app, options);
  add_keygen(app);
  add_doctor(app, options, options.doctor);
  add_cameras(app, options);
  CLI::App* recording =
      app.add_subcommand("record", "Write every frame's results to the disk of the daemon");
  recording->require_subcommand(1);
  recording->add_subcommand("start", "Begin; prints the file")->callback([&] {
    record(options, "start");
  });
  recording->add_subcommand("stop", "Close the file")->callback([&] { record(options, "stop"); });
  recording->add_subcommand("status", "Whether, where to, and how much")->callback([&] {
    record(options, nullptr);
    if (!options.json) print_raw_frames(options);
  });
  recording
      ->add_subcommand("frames",
                       "Save the raw frames of the last seconds (record.frames_memory_mb); prints "
                       "the file")
      ->callback([&] { save_raw_frames(options); });
  add_export(app);
  add_report(app);
  add_markers(app, options);
  add_exposure(app, options);
  CLI::App* snapshot = app.add_subcommand(
      "snapshot",
      "Draw the current frame with its ROIs to a PNG file. Colours: green good, blue not yet "
      "referenced, orange outlier, magenta implausible, red not fitted, grey outside the frame; "
      "dashed: witness");
  snapshot->add_option("file", options.snapshot_file, "Where to write it; the name ends in .png")
      ->required()
      ->check(CLI::Validator(check_png_name, ""));
  auto* every = snapshot
                    ->add_option("--every", options.snapshot_every_s,
                                 "Keep it fresh: anew after so many seconds, until Ctrl-C")
                    ->check(in_range(0.01, 86'400, "POSITIVE"));
  snapshot->add_option("--for", options.snapshot_for_s, "Stop after this many seconds")
      ->check(in_range(1e-3, 1e8, "POSITIVE"))
      ->needs(every);
  snapshot->callback([&] { save_snapshot(options); });
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Looks at and commands a running driftd.", "driftctl");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--config", options.config,
                 "Configuration file of driftd, for its endpoints; without: the default ones")
      ->check(CLI::ExistingFile);
  app.add_option(
         "--instance", options.instance,
         "Name of one of several daemons: driftd@NAME, whose sockets lie in /run/driftd/NAME")
      ->check(CLI::Validator(check_instance, "NAME"));
  app.add_option("--commands", options.commands, "Command endpoint of driftd, over the file's");
  app.add_option("--publish", options.publish, "Publishing endpoint of driftd, over the file's");
  app.add_option("--corrections", options.corrections,
                 "Endpoint of driftd's corrections, over the file's");
  app.add_option("--connect", options.connect,
                 "Command endpoint of a driftd on another computer, tcp://HOST:PORT; its other "
                 "sockets it tells itself. Needs keys: driftctl keygen");
  app.add_option("--key", options.keys.key,
                 "File with your own key; without: ~/.config/driftd/client.key_secret");
  app.add_option("--server-key", options.keys.server,
                 "File with the public key of that driftd; without: "
                 "~/.config/driftd/servers/HOST.key");
  app.add_option("--timeout", options.timeout_s, "Seconds to wait for an answer")
      ->check(in_range(1e-3, 1e6, "POSITIVE"))
      ->capture_default_str();
  app.add_flag("--json", options.json,
               "Print the JSON that came, control characters in its texts as blanks");
  add_commands(app, options);
  add_standard_flags(app, "driftctl");
  try {
    app.parse(argc, argv);
    return options.doctor.failed ? kExitRefused : 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  } catch (const Refused& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitRefused;
  } catch (const Unreachable& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitUnreachable;
  } catch (const BadEndpoint& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitUsage;
  } catch (const config::ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kExitUsage;
  } catch (const nlohmann::json::exception& error) {
    fmt::print(stderr, "driftctl: the answer is not what docs/reference/protocol.md says: {}\n",
               error.what());
    return kExitRefused;
  } catch (const std::exception& error) {
    fmt::print(stderr, "driftctl: {}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace
}  // namespace driftd::clients

int main(int argc, char** argv) {
  return driftd::clients::run(argc, argv);
}
