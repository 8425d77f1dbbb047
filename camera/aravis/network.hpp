// SPDX-License-Identifier: MIT
// The GigE Vision half of a connection: packet size, resend policy and socket buffer. Called by
// whoever connects, around the making of the stream. USB3 cameras have none of it.
#pragma once

#include <string>
#include <vector>

#include "camera/aravis/handles.hpp"
#include "camera/sources.hpp"

namespace driftd::camera::aravis {

/// Before the stream is made: chooses the packet size and the plain UDP socket (not AF_PACKET,
/// which is slower). @throws CameraError when the camera does not answer
void prepare_network(ArvCamera* camera, const std::string& address, const AravisSettings& settings,
                     std::vector<std::string>& notes);

/// After the stream is made and before it has buffers.
void tune_network_stream(ArvStream* stream, const AravisSettings& settings);

/// Why the kernel will give a socket buffer smaller than asked for; empty when it will not.
std::string socket_buffer_shortfall(int wanted_bytes);

}  // namespace driftd::camera::aravis
