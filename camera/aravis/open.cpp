// SPDX-License-Identifier: MIT
#include "camera/aravis/open.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string_view>
#include <vector>

#include "camera/aravis/gvcp_probe.hpp"
#include "camera/cameras.hpp"

namespace driftd::camera::aravis {
namespace {

/// Aravis' list of devices is one for the process, and reading it is not safe against another
/// thread that renews it (its issue 164): every search and opening holds this.
std::unique_lock<std::mutex> lock_aravis() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

std::string text_or_empty(const char* text) {
  return text != nullptr ? text : "";
}

/// What a device on the network says of itself may hold anything.
std::string printable(const char* text) {
  std::string kept = text_or_empty(text);
  std::erase_if(kept, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
  return kept;
}

/// Under lock_aravis().
std::vector<ListedCamera> search() {
  constexpr std::chrono::milliseconds kAnswerTime{300};
  arv_update_device_list();
  std::vector<ListedCamera> cameras(arv_get_n_devices());
  for (unsigned device = 0; device < cameras.size(); ++device) {
    ListedCamera& camera = cameras[device];
    camera.id = printable(arv_get_device_id(device));
    camera.vendor = printable(arv_get_device_vendor(device));
    camera.model = printable(arv_get_device_model(device));
    camera.serial = printable(arv_get_device_serial_nbr(device));
    camera.hardware = printable(arv_get_device_physical_id(device));
    const std::string address = printable(arv_get_device_address(device));
    if (std::string_view("GigEVision") != arv_get_device_protocol(device) || !is_ipv4(address))
      continue;
    camera.address = address;
    camera.user_name = printable(GvcpProbe(address).user_name(kAnswerTime).c_str());
  }
  return cameras;
}

/// GigE cameras are opened by address: by id, on a machine with several interfaces, Aravis may bind
/// the stream to the wrong one. Unknown names are left to Aravis, which also takes host names.
std::string name_to_open(const std::vector<ListedCamera>& cameras, const std::string& id) {
  if (const ListedCamera* meant = camera_named(cameras, id))
    return meant->address.empty() ? meant->id : meant->address;
  if (id.empty())
    throw CameraError(
        "no camera found (GigE Vision or USB3 Vision): see power and cable; one behind a router "
        "does not show and wants its address in camera.id");
  return id;
}

std::string camera_text(ArvCamera* camera,
                        const char* (*getter)(ArvCamera* camera, GError** error)) {
  Failure failure;
  const char* text = getter(camera, failure.out());
  return failure ? "" : text_or_empty(text);
}

OpenCamera open_locked(const std::string& name) {
  Failure failure;
  OpenCamera opened;
  opened.camera.reset(arv_camera_new(name.c_str(), failure.out()));
  if (!opened.camera) {
    throw CameraError("camera " + name +
                      " cannot be opened: " + (failure ? failure.text() : "it does not answer"));
  }
  ArvCamera* camera = opened.camera.get();
  opened.identity.open_by = name;
  opened.identity.serial = camera_text(camera, arv_camera_get_device_serial_number);
  opened.identity.description = camera_text(camera, arv_camera_get_vendor_name) + " " +
                                camera_text(camera, arv_camera_get_model_name) + " " +
                                opened.identity.serial + " at " + name;
  return opened;
}

}  // namespace

void require_control(const OpenCamera& opened) {
  ArvCamera* camera = opened.camera.get();
  if (arv_camera_is_gv_device(camera) == 0 ||
      arv_gv_device_is_controller(ARV_GV_DEVICE(arv_camera_get_device(camera))) != 0)
    return;
  throw CameraError("camera " + opened.identity.description +
                    " is controlled by another program; only one can use it at a time");
}

OpenCamera open_camera(const std::string& id) {
  const auto lock = lock_aravis();
  const bool by_address = is_ipv4(id);
  std::vector<ListedCamera> cameras;
  if (!by_address) cameras = search();
  const std::string name = by_address ? id : name_to_open(cameras, id);
  try {
    return open_locked(name);
  } catch (const CameraError& error) {
    if (name != id) throw;
    if (by_address) cameras = search();
    throw CameraError(error.what() + ("; " + cameras_in_words(cameras)));
  }
}

OpenCamera open_again(const Identity& identity) {
  const auto lock = lock_aravis();
  OpenCamera opened = open_locked(identity.open_by);
  if (opened.identity.serial != identity.serial) {
    throw CameraError("another camera (" + opened.identity.description +
                      ") answers in place of the one with serial number " + identity.serial);
  }
  return opened;
}

}  // namespace driftd::camera::aravis

namespace driftd::camera {

std::vector<ListedCamera> list_cameras() {
  const auto lock = aravis::lock_aravis();
  return aravis::search();
}

const ListedCamera* camera_named(const std::vector<ListedCamera>& cameras, const std::string& id) {
  const auto meant = std::ranges::find_if(cameras, [&](const ListedCamera& camera) {
    return id.empty() || id == camera.id || id == camera.serial || id == camera.hardware ||
           id == camera.address || id == camera.user_name;
  });
  return meant != cameras.end() ? &*meant : nullptr;
}

std::string cameras_in_words(const std::vector<ListedCamera>& cameras) {
  std::string list;
  for (const ListedCamera& camera : cameras) {
    list += (list.empty() ? "there are: " : ", ") + camera.id;
    if (!camera.address.empty()) list += " (" + camera.address + ")";
  }
  return list.empty() ? "no camera is found" : list;
}

}  // namespace driftd::camera
