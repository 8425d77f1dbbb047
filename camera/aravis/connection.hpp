// SPDX-License-Identifier: MIT
// Connection: one session with a camera, from opening to loss; a source makes a new one each time.
// Owned by the source's supervisor, which makes, watches and closes it. Aravis' stream thread fills
// its mailbox, the tracking loop empties that; the memory of the frames is the connection's own, so
// a frame the loop still holds stays readable while everything of Aravis is torn down.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "camera/aravis/clock_watch.hpp"
#include "camera/aravis/handles.hpp"
#include "camera/aravis/network.hpp"
#include "camera/aravis/open.hpp"
#include "camera/aravis/output_line.hpp"
#include "camera/doorbell.hpp"
#include "camera/frame_id.hpp"
#include "camera/newest_mailbox.hpp"
#include "camera/sources.hpp"

namespace driftd::camera::aravis {

/// What is shared by all connections of a source and outlives them.
struct SourceShared {
  explicit SourceShared(const AravisSettings& wanted) : settings(wanted) {}

  AravisSettings settings;  ///< of which the supervisor changes exposure and gain alone
  Doorbell doorbell;        ///< rung when a mailbox gets a frame or a connection comes or goes

  std::atomic<std::uint64_t> next_frame_id{0};  ///< after the last frame so far; 0: none yet
  std::atomic<std::uint64_t> superseded{0};
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> incomplete{0};
  KnownPackets packets;  ///< the supervisor's
};

/// A buffer of Aravis', the memory under it and the frame in it.
struct FrameSlot {
  std::vector<std::byte> memory;
  Ref<ArvBuffer> buffer;  ///< our own reference; the stream has another
  bool with_aravis = false;
  Frame frame;
};

/// What Aravis counts since the connection was made.
struct StreamStatistics {
  std::uint64_t underruns = 0;
  std::uint64_t missing_packets = 0;
  std::uint64_t resent_packets = 0;
};

class Connection {
 public:
  /// Sets the camera up and starts acquisition. @throws CameraError
  Connection(OpenCamera opened, SourceShared& shared);
  /// Tears down: blocks for 2.5 s per step when the camera is silent. No frame of it may be in use.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Ends acquisition and lets Aravis go, as the destructor does; the frames stay readable.
  /// @param camera_is_there  false: leaves out what can only time out
  void close(bool camera_is_there) noexcept;

  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] const SourceInfo& info() const { return info_; }
  NewestMailbox<FrameSlot>& mailbox() noexcept { return mailbox_; }

  /// Why the connection is to be given up; empty while all is well. Supervisor.
  [[nodiscard]] std::string loss(std::int64_t now_ns) const;
  /// What its frames tell of the network.
  [[nodiscard]] KnownPackets packets() const;
  [[nodiscard]] StreamStatistics statistics() const;
  ClockRate clock_rate(std::int64_t now_ns, bool wanted);
  /// A GigE Vision camera is told four times in its heartbeat's time that the daemon lives: Aravis
  /// does so once a second. Not one whose silence may soon be a loss.
  [[nodiscard]] bool heartbeat_is_due(std::int64_t now_ns) const noexcept;
  /// Tells it: 2.5 s where the camera is silent.
  void keep_control(std::int64_t now_ns) noexcept;
  /// Asks the camera: 2.5 s where it is silent. NaN where it does not tell.
  double temperature_c() noexcept;
  /// Sets both; info() has what came of it.
  /// @param wanted  as shared, with what is ordered. @returns as aravis::adjust_exposure()
  /// @throws CameraError when nobody knows what the camera has by now
  std::string adjust_exposure(const AravisSettings& wanted, const ExposureOrder& order);
  /// Frames come later by such a share of their period; 0: as configured.
  /// @returns why the camera did not take it; empty when it did
  std::string set_slowness(double share) noexcept;
  /// @throws CameraError when the camera does not take it
  void software_trigger();
  /// The line that tells of the lock; low in the beginning.
  [[nodiscard]] bool has_output() const noexcept { return output_.ready(); }
  /// @returns why the camera did not take it; empty when it did
  std::string set_output(bool high) noexcept;

 private:
  static void on_stream_event(void* self, ArvStreamCallbackType type, ArvBuffer* buffer);
  static void on_new_buffer(ArvStream* stream, gpointer self);
  static void on_control_lost(ArvDevice* device, gpointer self);

  void make_stream();
  void make_buffers(std::size_t payload_bytes);
  void accept(ArvStream* stream, FrameSlot& slot) noexcept;
  [[nodiscard]] bool is_as_configured(ArvBuffer* buffer) const noexcept;
  [[nodiscard]] bool is_whole(const FrameSlot& slot) const noexcept;
  [[nodiscard]] static int line_padding_bytes(ArvBuffer* buffer) noexcept;
  void count_incomplete(ArvBuffer* buffer) noexcept;
  [[nodiscard]] bool only_incomplete() const noexcept;
  [[nodiscard]] bool is_there(std::int64_t now_ns) const noexcept;
  [[nodiscard]] std::int64_t silence_ns(std::int64_t now_ns) const noexcept;
  [[nodiscard]] std::int64_t longest_silence_ns() const noexcept;
  static void give_to_aravis(ArvStream* stream, FrameSlot& slot) noexcept;

  SourceShared& shared_;
  Ref<ArvCamera> camera_;
  Identity identity_;
  SourceInfo info_;
  OutputLine output_;
  ArvPixelFormat pixel_format_ = 0;
  Ref<ArvStream> stream_;
  std::vector<FrameSlot> slots_;
  NewestMailbox<FrameSlot> mailbox_;
  std::optional<FrameIdUnwrapper> frame_ids_;  ///< the stream thread's
  std::int64_t stall_ns_ = 0;  ///< longest silence; 0: frames come when a trigger says so
  std::int64_t started_ns_ = 0;
  int packet_size_bytes_ = 0;  ///< 0: no network
  bool has_clock_ = true;
  std::int64_t next_heartbeat_ns_ = 0;
  ClockWatch clock_watch_;

  // Written by threads of Aravis', read by the supervisor.
  std::atomic<std::int64_t> last_buffer_ns_{0};
  std::atomic<std::int64_t> last_whole_ns_{0};
  std::atomic<int> incomplete_in_a_row_{0};           ///< for packets that did not come
  std::atomic<std::int64_t> incomplete_since_ns_{0};  ///< the first of them
  std::atomic<bool> control_lost_{false};
  std::atomic<bool> format_changed_{false};
};

}  // namespace driftd::camera::aravis
