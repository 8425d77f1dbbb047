// SPDX-License-Identifier: MIT
#include "clients/driftctl/doctor/machine.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <sstream>

namespace driftd::clients::doctor {
namespace {

namespace fs = std::filesystem;

struct Route {
  std::string interface;
  std::uint32_t destination = 0, mask = 0;  ///< as the kernel has them
};

/// /proc/net/route: a heading, then a line each.
std::vector<Route> routes_of(const Machine& machine) {
  std::istringstream lines(machine.text("proc/net/route").value_or(""));
  std::vector<Route> routes;
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    Route route;
    std::string gateway;
    unsigned flags = 0;
    int skipped = 0;
    fields >> route.interface >> std::hex >> route.destination >> gateway >> flags >> std::dec >>
        skipped >> skipped >> skipped >> std::hex >> route.mask;
    constexpr unsigned kUp = 1;
    if (fields && (flags & kUp) != 0) routes.push_back(route);
  }
  return routes;
}

std::optional<std::uint32_t> number_of(const std::string& address) {
  in_addr parsed{};
  if (inet_pton(AF_INET, address.c_str(), &parsed) != 1) return std::nullopt;
  return parsed.s_addr;
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

std::string Machine::camera_address() const {
  if (config.camera.source != config::Source::Aravis) return {};
  if (number_of(config.camera.id)) return config.camera.id;
  if (status) {
    // "vendor model serial at address"
    const auto& camera = status->value("/camera/description"_json_pointer, nlohmann::json());
    const std::string words = camera.is_string() ? camera.get<std::string>() : "";
    std::string last = words.substr(words.rfind(' ') + 1);
    if (number_of(last)) return last;
    if (!words.empty()) return {};  // a USB camera
  }
  for (const FoundCamera& camera : find_cameras()) {
    const bool meant =
        config.camera.id.empty() || config.camera.id == camera.address ||
        (!camera.serial.empty() && config.camera.id.find(camera.serial) != std::string::npos);
    if (meant) return camera.address;
  }
  return {};
}

std::string Machine::interface_to(const std::string& address) const {
  const auto wanted = number_of(address);
  if (!wanted) return {};
  if (is_loopback_address(address)) return "lo";
  std::string best;
  int longest = -1;
  for (const Route& route : routes_of(*this)) {
    if ((*wanted & route.mask) != route.destination) continue;
    const int length = std::popcount(route.mask);
    if (length > longest) best = route.interface;
    longest = std::max(longest, length);
  }
  return best;
}

bool Machine::has_default_route(const std::string& interface) const {
  return std::ranges::any_of(routes_of(*this), [&](const Route& route) {
    return route.interface == interface && route.destination == 0 && route.mask == 0;
  });
}

bool is_loopback_address(const std::string& address) {
  return number_of(address) && address.starts_with("127.");
}

}  // namespace driftd::clients::doctor
