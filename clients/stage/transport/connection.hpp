// SPDX-License-Identifier: MIT
// The line of one backend, which may be open or not. A backend owns one for each device and calls
// it from its thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "clients/stage/transport/open_stream.hpp"

namespace driftd::stage {

class Connection {
 public:
  /// Opens nothing. @throws std::invalid_argument for a device that cannot be one
  Connection(std::string device, int baud, bool rts_cts, int timeout_ms)
      : device_(std::move(device)), baud_(baud), rts_cts_(rts_cts), timeout_ms_(timeout_ms) {
    check_device(device_, baud_);
  }

  /// Closes what was open first: a serial line is for one at a time. @throws StageError
  void open() {
    stream_.reset();
    stream_.emplace(open_stream(device_, baud_, rts_cts_, timeout_ms_));
  }
  void close() { stream_.reset(); }
  /// Closes it at once; what was written and has not left is dropped.
  void drop() noexcept {
    if (stream_) stream_->drop();
  }

  /// @throws StageError while it is not open
  ByteStream* operator->() {
    if (!stream_) throw StageError(device_ + ": not connected");
    return &*stream_;
  }

 private:
  std::string device_;
  int baud_;
  bool rts_cts_;
  int timeout_ms_;
  std::optional<ByteStream> stream_;
};

}  // namespace driftd::stage
