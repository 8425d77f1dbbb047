// SPDX-License-Identifier: MIT
// Finds and opens a camera and takes control of it. Called by whoever connects: start() and then
// the source's supervisor. Blocks: 1 s for a search of the network, 2.5 s for a camera that is
// silent.
#pragma once

#include <string>

#include "camera/aravis/handles.hpp"

namespace driftd::camera::aravis {

/// A camera as found, to find the same one again.
struct Identity {
  std::string open_by;  ///< what Aravis opens it by: IPv4 address (GigE Vision) or device id
  std::string serial;
  std::string description;  ///< "vendor model serial at address"
};

struct OpenCamera {
  Ref<ArvCamera> camera;
  Identity identity;
};

/// @param id  Aravis id, serial number or IP address; empty: the first camera found
/// @throws CameraError when it is not there or does not answer
OpenCamera open_camera(const std::string& id);

/// Opens the camera that open_camera() found before; no search of the network.
/// @throws CameraError as open_camera(), and when another camera has taken its place
OpenCamera open_again(const Identity& identity);

/// Checks that this program controls the camera. @throws CameraError where another program does
void require_control(const OpenCamera& opened);

}  // namespace driftd::camera::aravis
