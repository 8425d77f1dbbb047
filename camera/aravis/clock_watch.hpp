// SPDX-License-Identifier: MIT
// Asks a camera how fast its clock runs, for as long as someone wants to know. One belongs to each
// connection; the supervisor calls it. Only on demand: a question to a camera that has just died
// blocks Aravis for seconds.
#pragma once

#include "camera/aravis/handles.hpp"
#include "camera/clock_rate.hpp"

namespace driftd::camera::aravis {

class ClockWatch {
 public:
  /// Asks four times a second. A camera that cannot tell, or refuses, is not asked again.
  /// @param there  a frame came just now
  ClockRate update(ArvCamera* camera, std::int64_t now_ns, bool wanted, bool there);

 private:
  void find_latch(ArvCamera* camera);
  bool read(ArvCamera* camera);

  bool looked_ = false;
  const char* command_ = nullptr;  ///< nullptr: cannot be asked
  const char* value_ = nullptr;
  double tick_ns_ = 1;
  std::int64_t next_ns_ = 0;
  ClockReadings readings_;
};

}  // namespace driftd::camera::aravis
