// SPDX-License-Identifier: MIT
#include "config/options.hpp"

#include <algorithm>
#include <cmath>

#include "config/checks.hpp"

namespace driftd::config {
namespace {

/// That the choice from an image goes down to.
constexpr int kLeastChosenRoiPx = 5;

using yaml::allowed_number;
using yaml::allowed_text;

const std::vector<Option>& rows() {
  static const std::vector<Option> rows =
      joined({source_options(), tracking_options(), lock_options(), service_options()});
  return rows;
}

}  // namespace

const Table& table() {
  static const Table table = {.title = "driftd configuration",
                              .options = options(),
                              .sections = sections(),
                              .reloads = true,
                              .find_conflicts =
                                  [](const Settings& settings) {
                                    return find_conflicts(static_cast<const Config&>(settings));
                                  },
                              .removed = removed_keys()};
  return table;
}

std::span<const Option> options() {
  return rows();
}

std::span<const Section> sections() {
  static constexpr Section kSections[] = {
      {"camera", "Where the frames come from, and how the camera is set."},
      {"replay", "The recording to play. Read only with `camera.source: replay`."},
      {"optics", "What one camera pixel and one marker measure."},
      {"fitter", "The 2-D Gaussian fit of every marker in every frame."},
      {"fitter.cuda", "The GPU. Read only with `fitter.backend: cuda` or `auto`."},
      {"markers", "Which spots are tracked."},
      {"drift", "How the markers' displacements become one drift."},
      {"axial", "Whether z is measured and held, and how (docs/use/axial.md)."},
      {"axial.stage",
       "How the stage of z moves the sample, and how fast it answers. Read only where z is held."},
      {"axial.reflection",
       "The spot of light that the cover glass reflects onto the camera. Read only with "
       "`axial.method: reflection`."},
      {"lock", "When the lock engages, holds and gives up."},
      {"gate", "When the sample lies still enough to take images (`in_lock`)."},
      {"control", "How the drift becomes a correction, and how far a correction may go."},
      {"stage", "How the stage lies to the image, and how fast it answers."},
      {"realtime", "How the threads that must not wait are scheduled."},
      {"wire", "The ZeroMQ sockets."},
      {"access", "Who may connect, and what they may do (docs/use/security.md)."},
      {"record", "What is written to the disk of every frame (docs/use/records.md)."},
      {"log", "What goes to the journal."},
      {"hook", "The program that is told of events, to send a mail for one."},
  };
  return kSections;
}

std::span<const ListKey> marker_keys() {
  static const std::vector<ListKey> keys = {
      {.name = "id",
       .required = true,
       .whole = true,
       .choice = "",
       .rules = {.text = "Number of the marker in messages; no two markers share one.",
                 .min = 1,
                 .max = 4294967295}},
      {.name = "x_px",
       .required = true,
       .whole = false,
       .choice = "",
       .rules = {.text = "Column on the full sensor; the first pixel's centre is 0.",
                 .unit = "px",
                 .min = 0,
                 .max = 65535}},
      {.name = "y_px",
       .required = true,
       .whole = false,
       .choice = "",
       .rules = {.text = "Row on the full sensor; the first pixel's centre is 0.",
                 .unit = "px",
                 .min = 0,
                 .max = 65535}},
      {.name = "role",
       .required = false,
       .whole = false,
       .choice = "tracking",
       .rules = {.text = "A `tracking` marker takes part in the correction; a `witness` is "
                         "measured only, as the check that the lock holds.",
                 .choices = names_of<control::MarkerRole>()}},
  };
  return keys;
}

const Option* find_option(std::string_view key) {
  const auto found = std::ranges::find(rows(), key, &Option::key);
  return found == rows().end() ? nullptr : &*found;
}

std::string allowed(const ListKey& list_key) {
  const Rules& rules = list_key.rules;
  return rules.choices.empty() ? allowed_number(rules.range(), list_key.whole)
                               : allowed_text(rules.choices);
}

Config default_config() {
  Config config{};
  set_defaults(table(), config);
  return config;
}

Config with_sizes(Config config, double sigma_px, int roi_px) {
  constexpr int kLargestRoiPx = 64;
  constexpr double kSigmasOfRoi = 10;
  double& sigma = config.optics.spot_sigma_px;
  int& roi = config.fitter.roi_px;
  if (sigma == 0) sigma = sigma_px;
  if (roi == 0) roi = roi_px;
  if (roi == 0 && sigma > 0)
    roi = std::clamp(static_cast<int>(std::lround(kSigmasOfRoi * sigma)) | 1, kLeastChosenRoiPx,
                     kLargestRoiPx);
  if (roi == 0) roi = control::kAssumedRoiPx;
  if (sigma == 0) sigma = roi / kSigmasOfRoi;
  return config;
}

double least_side_px(const Config& config) {
  const bool automatic = config.markers.mode == MarkerMode::Auto;
  int roi_px = config.fitter.roi_px;
  if (roi_px == 0) roi_px = automatic ? kLeastChosenRoiPx : with_sizes(config).fitter.roi_px;
  return roi_px + (automatic ? 2 * config.markers.border_px : 0);
}

std::vector<std::string> not_reloadable_changes(const Config& before, const Config& after,
                                                bool idle) {
  std::vector<std::string> keys;
  for (const Option& option : options()) {
    const Reload reload = option.rules.reload;
    const bool may = reload == Reload::Live || (reload == Reload::Idle && idle);
    if (!may && option.get(before) != option.get(after)) {
      keys.emplace_back(option.key);
    }
  }
  return keys;
}

}  // namespace driftd::config
