// SPDX-License-Identifier: MIT
#include "daemon/camera/camera_network.hpp"

#include <fstream>
#include <iterator>

#include "base/routes.hpp"

namespace driftd::daemon {

std::string address_in(const std::string& description) {
  constexpr std::string_view kAt = " at ";
  const std::size_t at = description.rfind(kAt);
  return at == std::string::npos ? "" : description.substr(at + kAt.size());
}

void CameraNetwork::look(const std::string& description) {
  if (description == known_) return;
  known_ = description;
  const std::string address = address_in(description);
  if (address.empty()) return;
  std::ifstream file("/proc/net/route");
  const std::string exposure =
      exposure_of_camera(routes_of(std::string(std::istreambuf_iterator<char>(file), {})), address);
  if (exposure.empty()) return;
  events_.raise(EventLog::Level::Warning, "camera_network",
                exposure + "; nothing protects it there (docs/use/security.md)",
                {{"address", address}});
}

}  // namespace driftd::daemon
