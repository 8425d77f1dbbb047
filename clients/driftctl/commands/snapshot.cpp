// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/snapshot.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/counted.hpp"
#include "base/process/option_range.hpp"
#include "clients/driftctl/camera/snapshot_image.hpp"
#include "clients/driftctl/commands/keep_snapshot.hpp"

namespace driftd::clients {
namespace {

struct SnapshotOptions {
  std::string file;
  double every_s = 0;  ///< 0: one
  double for_s = 0;    ///< 0: until interrupted
};

/// A PNG is what is written, and other programs go by the name.
std::string check_png_name(const std::string& file) {
  std::string end = std::filesystem::path(file).extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (end == ".png") return {};
  return "'" + file + "' does not end in .png, and a PNG is what is written";
}

void save_snapshot(const CommonOptions& options, const SnapshotOptions& given) {
  if (given.every_s > 0) {
    return keep_snapshot({given.file, given.every_s, given.for_s, options.json}, [&] {
      return send(options, {{"command", "snapshot"}});
    });
  }
  const Reply reply = send(options, {{"command", "snapshot"}});
  const nlohmann::json& frame = reply.body.at("frame");
  const RgbImage image = draw_snapshot(frame, reply.attachment);
  write_png(image, given.file);
  if (options.json) {
    fmt::print("{}\n", frame.dump());
  } else {
    fmt::print("frame {}: {} x {} pixels, {}, drawn to {}\n",
               frame.at("frame_id").get<std::uint64_t>(), frame.at("width_px").get<int>(),
               frame.at("height_px").get<int>(), counted(frame.at("rois").size(), "ROI"),
               given.file);
  }
}

}  // namespace

void add_snapshot(CLI::App& app, const CommonOptions& options) {
  const auto given = std::make_shared<SnapshotOptions>();
  CLI::App* command = app.add_subcommand(
      "snapshot",
      "Draw the current frame with its ROIs to a PNG file. Colours: green good, blue not yet "
      "referenced, orange outlier, magenta implausible, red not fitted, grey outside the frame; "
      "dashed: witness");
  command->add_option("file", given->file, "Where to write it; the name ends in .png")
      ->required()
      ->check(CLI::Validator(check_png_name, ""));
  auto* every = command
                    ->add_option("--every", given->every_s,
                                 "Keep it fresh: anew after so many seconds, until Ctrl-C")
                    ->check(in_range(0.01, 86'400, "POSITIVE"));
  command->add_option("--for", given->for_s, "Stop after this many seconds")
      ->check(in_range(1e-3, 1e8, "POSITIVE"))
      ->needs(every);
  command->callback([given, &options] { save_snapshot(options, *given); });
}

}  // namespace driftd::clients
