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
                     std::vector<CameraNote>& notes);

/// After the stream is made and before it has buffers.
void tune_network_stream(ArvStream* stream, const AravisSettings& settings);

/// The socket buffer that the kernel gives; `wanted_bytes` where it gives that or more.
int socket_buffer_given(int wanted_bytes);
/// The warning about a smaller one, with its remedy.
CameraNote socket_buffer_note(int wanted_bytes, int given_bytes);

}  // namespace driftd::camera::aravis
