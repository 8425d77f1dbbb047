// SPDX-License-Identifier: MIT
// The GigE Vision half of a connection: packet size, resend policy, socket buffer and heartbeat.
// Called by whoever connects, around the making of the stream. USB3 cameras have none of it.
#pragma once

#include <string>
#include <vector>

#include "camera/aravis/handles.hpp"
#include "camera/sources.hpp"

namespace driftd::camera::aravis {

/// What connections before learned of the network.
struct KnownPackets {
  bool fit = false;         ///< frames came whole: no test packets are needed
  bool do_not_fit = false;  ///< not one ever did: an automatic size is the smallest usual one
};

/// Chooses the packet size and the plain UDP socket (not AF_PACKET, which is slower), before the
/// stream is made. @returns the packet size, bytes. @throws CameraError when the camera does not
/// answer
int prepare_network(ArvCamera* camera, const std::string& address, const AravisSettings& settings,
                    KnownPackets known, std::vector<CameraNote>& notes);

/// Tells the camera that the daemon lives, by a question as Aravis asks it.
void send_heartbeat(ArvCamera* camera) noexcept;

/// "packets of 9000 bytes over eth0, whose MTU is 1500 bytes": what to look at when no frame comes
/// whole.
std::string packets_in_words(ArvCamera* camera, int packet_size_bytes);

/// After the stream is made and before it has buffers.
void tune_network_stream(ArvStream* stream, const AravisSettings& settings);

/// The socket buffer that the kernel gives; `wanted_bytes` where it gives that or more.
int socket_buffer_given(int wanted_bytes);
/// The warning about a smaller one, with its remedy.
CameraNote socket_buffer_note(int wanted_bytes, int given_bytes);

}  // namespace driftd::camera::aravis
