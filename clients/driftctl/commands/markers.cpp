// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/markers.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/counted.hpp"
#include "clients/common/daemon_view.hpp"

namespace driftd::clients {
namespace {

void print_markers(const CommonOptions& options, bool find) {
  nlohmann::json command{{"command", "markers"}};
  if (find) command["find"] = true;
  const Reply reply = send(options, command);
  if (options.json) {
    fmt::print("{}\n", reply.body.dump());
    return;
  }
  DaemonView view;
  view.set_markers(reply.body);
  for (const Line& line : view.marker_table(SIZE_MAX)) fmt::print("{}\n", line.text);
  if (reply.body.contains("outdated_s"))
    fmt::print("as they were {:.1f} s ago: no frame has shown them since\n",
               reply.body["outdated_s"].get<double>());
  const nlohmann::json rejected = reply.body.value("rejected", nlohmann::json::array());
  if (!rejected.empty())
    fmt::print("{} {} no marker:\n", counted(rejected.size(), "other spot"),
               rejected.size() == 1 ? "is" : "are");
  for (const nlohmann::json& spot : rejected)
    fmt::print("{:>9.1f} {:>9.1f} px  {}\n", spot.at("x_px").get<double>(),
               spot.at("y_px").get<double>(), spot.at("reason").get<std::string>());
  if (const std::string offer = reply.body.value("offer", ""); !offer.empty())
    fmt::print("{}\n", offer);
}

}  // namespace

void add_markers(CLI::App& app, const CommonOptions& options) {
  const auto find = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("markers", "Print the markers");
  command->add_flag("--find", *find, "Look for markers anew (only while idle)");
  command->callback([find, &options] { print_markers(options, *find); });
}

}  // namespace driftd::clients
