// SPDX-License-Identifier: MIT
#include "camera/aravis/open.hpp"

#include <mutex>
#include <string_view>

#include "camera/aravis/gvcp_probe.hpp"

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

bool is_named(unsigned device, const std::string& id) {
  for (const char* name : {arv_get_device_id(device), arv_get_device_serial_nbr(device),
                           arv_get_device_physical_id(device), arv_get_device_address(device)}) {
    if (name != nullptr && id == name) return true;
  }
  return false;
}

/// GigE cameras are opened by address: by id, on a machine with several interfaces, Aravis may bind
/// the stream to the wrong one.
std::string name_to_open(unsigned device) {
  const std::string address = text_or_empty(arv_get_device_address(device));
  const bool gige = std::string_view("GigEVision") == arv_get_device_protocol(device);
  return gige && is_ipv4(address) ? address : text_or_empty(arv_get_device_id(device));
}

/// What to open for `id`. Unknown names are left to Aravis: it also takes user-defined names and
/// host names.
std::string find(const std::string& id) {
  if (is_ipv4(id)) return id;
  arv_update_device_list();
  const unsigned count = arv_get_n_devices();
  for (unsigned device = 0; device < count; ++device) {
    if (id.empty() || is_named(device, id)) return name_to_open(device);
  }
  if (id.empty()) throw CameraError("no camera found (GigE Vision or USB3 Vision)");
  return id;
}

/// For the message when the wanted camera is not there.
std::string cameras_there_are() {
  std::string list;
  const unsigned count = arv_get_n_devices();
  for (unsigned device = 0; device < count; ++device) {
    list += (list.empty() ? "; there are: " : ", ") + text_or_empty(arv_get_device_id(device)) +
            " (" + text_or_empty(arv_get_device_address(device)) + ")";
  }
  return list;
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
  const std::string name = find(id);
  try {
    return open_locked(name);
  } catch (const CameraError& error) {
    if (name != id || is_ipv4(id)) throw;
    throw CameraError(error.what() + cameras_there_are());
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
