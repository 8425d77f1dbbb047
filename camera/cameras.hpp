// SPDX-License-Identifier: MIT
// The cameras that a search finds, and which of them a name means: what the Aravis source opens by,
// and what `driftctl` lists.
#pragma once

#include <string>
#include <vector>

namespace driftd::camera {

/// As the camera says, control characters left out; "" where it does not tell.
struct ListedCamera {
  std::string id;       ///< Aravis'
  std::string address;  ///< IPv4 of a GigE Vision camera; of others ""
  std::string vendor, model, serial;
  std::string hardware;   ///< MAC address or the like
  std::string user_name;  ///< that a user gave it
};

/// Searches network and USB: a second, and 0.3 s for each camera that shows and does not answer. A
/// GigE Vision camera behind a router does not show.
std::vector<ListedCamera> list_cameras();

/// The one that `id` means: Aravis' id, a serial number, an address or a user's name; "" means the
/// first. @returns nullptr: none of them
const ListedCamera* camera_named(const std::vector<ListedCamera>& cameras, const std::string& id);

/// "there are: ID (ADDRESS), ID", or "no camera is found".
std::string cameras_in_words(const std::vector<ListedCamera>& cameras);

}  // namespace driftd::camera
