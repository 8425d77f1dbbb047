// SPDX-License-Identifier: MIT
#include "clients/driftctl/doctor/machine.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

namespace driftd::clients::doctor {
namespace {

namespace fs = std::filesystem;

bool is_address(const std::string& text) {
  in_addr parsed{};
  return inet_pton(AF_INET, text.c_str(), &parsed) == 1;
}

}  // namespace

std::optional<std::string> Machine::text(const std::string& path) const {
  std::ifstream in(root / path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string all(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return std::nullopt;
  return all;
}

std::optional<std::string> Machine::line(const std::string& path) const {
  auto all = text(path);
  if (all) all->resize(std::min(all->size(), all->find('\n')));
  return all;
}

std::optional<long> Machine::number(const std::string& path) const {
  const auto digits = line(path);
  long value = 0;
  if (!digits) return std::nullopt;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

bool Machine::exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(root / path, error);
}

std::vector<std::string> Machine::names(const std::string& folder) const {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / folder, error))
    found.push_back(entry.path().filename());
  std::ranges::sort(found);
  return found;
}

bool Machine::has_service() const {
  return exists("usr/lib/systemd/system/driftd.service") ||
         exists("lib/systemd/system/driftd.service") || exists("etc/systemd/system/driftd.service");
}

std::string Machine::unit() const {
  return instance.empty() ? "driftd" : "driftd@" + instance;
}

fs::path Machine::service_file() const {
  return "/etc/driftd/driftd" + (instance.empty() ? "" : '-' + instance) + ".yaml";
}

bool Machine::has_program(const std::string& name) const {
  return std::ranges::any_of(
      std::array{"usr/bin/", "usr/sbin/", "usr/local/bin/", "usr/local/sbin/", "bin/", "sbin/"},
      [&](const char* folder) { return exists(folder + name); });
}

bool Machine::has_group(const std::string& name) const {
  return ("\n" + text("etc/group").value_or("")).find("\n" + name + ":") != std::string::npos;
}

std::string Machine::camera_address() const {
  if (config.camera.source != config::Source::Aravis) return {};
  if (is_address(config.camera.id)) return config.camera.id;
  if (status) {
    // "vendor model serial at address"
    const auto& camera = status->value("/camera/description"_json_pointer, nlohmann::json());
    const std::string words = camera.is_string() ? camera.get<std::string>() : "";
    std::string last = words.substr(words.rfind(' ') + 1);
    if (is_address(last)) return last;
    if (!words.empty()) return {};  // a USB camera
  }
  const auto cameras = find_cameras();
  const camera::ListedCamera* meant = camera::camera_named(cameras, config.camera.id);
  return meant != nullptr ? meant->address : "";
}

std::vector<Route> Machine::routes() const {
  return routes_of(text("proc/net/route").value_or(""));
}

std::string Machine::interface_to_camera(const std::string& address) const {
  const auto route = route_to(routes(), address);
  if (!route || (route->gateway != 0 && !ask_camera(address))) return {};
  return route->interface;
}

}  // namespace driftd::clients::doctor
