// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/record.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <string>

#include "base/counted.hpp"

namespace driftd::clients {
namespace {

void order_recording(const CommonOptions& options, const char* order) {
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

void print_raw_frames(const CommonOptions& options) {
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

void save_raw_frames(const CommonOptions& options) {
  const nlohmann::json body = send(options, {{"command", "record"}, {"frames", true}}).body;
  if (options.json)
    fmt::print("{}\n", body.dump());
  else
    fmt::print("raw frames go to {}\n", body.at("file").get<std::string>());
}

}  // namespace

void add_record(CLI::App& app, const CommonOptions& options) {
  CLI::App* command =
      app.add_subcommand("record", "Write every frame's results to the disk of the daemon");
  command->require_subcommand(1);
  command->add_subcommand("start", "Begin; prints the file")->callback([&options] {
    order_recording(options, "start");
  });
  command->add_subcommand("stop", "Close the file")->callback([&options] {
    order_recording(options, "stop");
  });
  command->add_subcommand("status", "Whether, where to, and how much")->callback([&options] {
    order_recording(options, nullptr);
    if (!options.json) print_raw_frames(options);
  });
  command
      ->add_subcommand("frames",
                       "Save the raw frames of the last seconds (record.frames_memory_mb); prints "
                       "the file")
      ->callback([&options] { save_raw_frames(options); });
}

}  // namespace driftd::clients
