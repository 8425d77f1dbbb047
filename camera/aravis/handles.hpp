// SPDX-License-Identifier: MIT
// RAII for GObjects and the check of GError after every call of Aravis (a failed getter returns 0
// and says nothing else). For the files of camera/aravis/ only: nothing of Aravis leaves this
// folder.
#pragma once

#include <arv.h>

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "camera/frame_source.hpp"

namespace driftd::camera::aravis {

struct Unref {
  void operator()(gpointer object) const noexcept { g_object_unref(object); }
};
template <typename T>
using Ref = std::unique_ptr<T, Unref>;

struct GFree {
  void operator()(gconstpointer memory) const noexcept { g_free(const_cast<gpointer>(memory)); }
};
/// A list that an arv_*_dup_* function returned: free the list, not its strings.
using StringList = std::unique_ptr<const char*, GFree>;

/// What one call of Aravis reported.
class Failure {
 public:
  Failure() = default;
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;
  ~Failure() { g_clear_error(&error_); }

  /// For the last argument of a call.
  GError** out() noexcept { return &error_; }
  explicit operator bool() const noexcept { return error_ != nullptr; }
  [[nodiscard]] std::string text() const { return error_ != nullptr ? error_->message : ""; }

  /// The camera did not answer, as opposed to an answer that says no: going on is useless.
  [[nodiscard]] bool is_silence() const noexcept {
    return error_ != nullptr && error_->domain == ARV_DEVICE_ERROR &&
           (error_->code == ARV_DEVICE_ERROR_TIMEOUT ||
            error_->code == ARV_DEVICE_ERROR_NOT_CONNECTED ||
            error_->code == ARV_DEVICE_ERROR_TRANSFER_ERROR);
  }

 private:
  GError* error_ = nullptr;
};

/// function(arguments..., &error). @throws CameraError "`doing`: what Aravis says"
template <typename Function, typename... Arguments>
auto checked(const std::string& doing, Function function, Arguments... arguments) {
  Failure failure;
  const auto check = [&] {
    if (failure) throw CameraError(doing + ": " + failure.text());
  };
  if constexpr (std::is_void_v<std::invoke_result_t<Function, Arguments..., GError**>>) {
    function(arguments..., failure.out());
    check();
  } else {
    auto result = function(arguments..., failure.out());
    check();
    return result;
  }
}

/// The same for a call that the camera may refuse: returns why, empty when it obeyed.
/// @throws CameraError when the camera does not answer at all
template <typename Function, typename... Arguments>
std::string refusal(Function function, Arguments... arguments) {
  Failure failure;
  function(arguments..., failure.out());
  if (failure.is_silence()) throw CameraError("the camera does not answer: " + failure.text());
  return failure.text();
}

/// Whether the camera says yes to one of Aravis' questions; what it refuses to answer is a no.
/// @throws CameraError when the camera does not answer at all
template <typename Function, typename... Arguments>
bool says_yes(Function function, Arguments... arguments) {
  bool yes = false;
  const std::string refused =
      refusal([&](auto... all) { yes = function(all...) != 0; }, arguments...);
  return yes && refused.empty();
}

/// Whether the camera has a feature and lets it be used now.
/// @throws CameraError when the camera does not answer at all
inline bool has(ArvCamera* camera, const char* feature) {
  return says_yes(arv_camera_is_feature_available, camera, feature);
}

}  // namespace driftd::camera::aravis
