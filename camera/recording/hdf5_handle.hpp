// SPDX-License-Identifier: MIT
// Owning HDF5 handles, and the reason of HDF5's last failure. Included by the files that use
// HDF5 alone: it brings in the library's header. Debian's HDF5 is for one thread at a time.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

namespace driftd::camera {

class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close closer) noexcept : id_(id), close_(closer) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  ~Hdf5Handle() { close(); }

  /// False when what was written could not be stored. The reason of a failure before, of which
  /// HDF5 forgets with each call, stays to be asked for.
  bool close() noexcept {
    if (id_ < 0) return true;
    const bool failed = H5Eget_num(H5E_DEFAULT) > 0;
    const hid_t reason = failed ? H5Eget_current_stack() : H5I_INVALID_HID;
    const bool stored = close_(std::exchange(id_, H5I_INVALID_HID)) >= 0;
    if (reason >= 0) H5Eset_current_stack(reason);
    return stored;
  }
  [[nodiscard]] hid_t get() const noexcept { return id_; }
  [[nodiscard]] explicit operator bool() const noexcept { return id_ >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// Keeps HDF5 from printing its errors.
inline void silence_hdf5() noexcept {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

/// The innermost reason of the last failure, "" when there is none.
inline std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* error, void* text) -> herr_t {
        if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
        return 0;
      },
      &reason);
  return reason;
}

}  // namespace driftd::camera
