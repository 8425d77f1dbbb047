// SPDX-License-Identifier: MIT
#include "camera/aravis/connection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/monotonic.hpp"
#include "camera/aravis/configure.hpp"
#include "camera/aravis/features.hpp"
#include "camera/aravis/network.hpp"

namespace driftd::camera::aravis {
namespace {

/// A camera may take this long from the start of acquisition to its first frame.
constexpr std::int64_t kFirstFrameNs = kNanosecondsPerSecond;
/// Slow cameras are lost after this many frame periods, whatever stall_timeout_ms says.
constexpr double kStallPeriods = 4;
/// So many, and for a second at least, are no accident.
constexpr int kIncompleteInARow = 10;
/// A camera whose last frame is older is asked nothing that can wait: it may have died.
constexpr std::int64_t kJustNowNs = 50'000'000;

/// The longest silence that is no loss. A time-out shorter than the camera's own period would break
/// every connection; a note tells when it had to be raised.
std::int64_t stall_time_ns(const AravisSettings& settings, SourceInfo& info) {
  if (settings.trigger != Trigger::Off) return 0;
  const double period_us =
      std::max(info.exposure_us, info.frame_rate_hz > 0 ? 1e6 / info.frame_rate_hz : 0);
  const double wanted_us = 1e3 * settings.stall_timeout_ms;
  const double stall_us = std::max(wanted_us, kStallPeriods * period_us);
  if (stall_us > wanted_us) {
    const std::string taken = std::to_string(std::llround(stall_us / 1e3));
    const std::string wanted = std::to_string(settings.stall_timeout_ms);
    // Nothing is worse by it, and nobody may have asked for the shorter one.
    info.camera_notes.push_back({.key = "stall_timeout_ms",
                                 .asked = wanted,
                                 .got = taken,
                                 .severity = CameraNote::Severity::Info,
                                 .text = "frames come only every " +
                                         std::to_string(std::llround(period_us / 1e3)) +
                                         " ms: a silence is a loss of the camera from " + taken +
                                         " ms on (stall_timeout_ms is " + wanted + ")"});
  }
  return static_cast<std::int64_t>(stall_us * 1e3);
}

/// Whether the camera has a clock. Without one Aravis gives each frame the time of its arrival, by
/// the computer's clock.
bool tells_time(ArvCamera* camera) {
  Failure failure;
  const guint64 ticks_hz = arv_gv_device_get_timestamp_tick_frequency(
      ARV_GV_DEVICE(arv_camera_get_device(camera)), failure.out());
  return !failure && ticks_hz > 0;
}

}  // namespace

Connection::Connection(OpenCamera opened, SourceShared& shared)
    : shared_(shared), camera_(std::move(opened.camera)), identity_(std::move(opened.identity)) {
  ArvCamera* camera = camera_.get();
  const AravisSettings& settings = shared_.settings;
  // A camera that still streams to a dead client gives the new one no frames; one that streams to
  // nobody may refuse to stop.
  refusal(arv_camera_stop_acquisition, camera);
  info_ = configure(camera, settings);
  output_.prepare(camera, settings.in_lock_line, info_.camera_notes);
  info_.description = identity_.description;
  stall_ns_ = stall_time_ns(settings, info_);
  try {
    make_stream();
    g_signal_connect(arv_camera_get_device(camera), "control-lost",
                     G_CALLBACK(&Connection::on_control_lost), this);
    started_ns_ = monotonic_ns();
    checked("starting acquisition", arv_camera_start_acquisition, camera);
  } catch (...) {
    close(true);
    throw;
  }
}

Connection::~Connection() {
  close(true);
}

void Connection::make_stream() {
  ArvCamera* camera = camera_.get();
  const bool gige = arv_camera_is_gv_device(camera) != 0;
  if (gige)
    packet_size_bytes_ = prepare_network(camera, identity_.open_by, shared_.settings,
                                         shared_.packets, info_.camera_notes);
  if (gige) has_clock_ = tells_time(camera);
  const guint payload = checked("reading the payload size", arv_camera_get_payload, camera);
  const std::size_t image = image_bytes(info_.format, info_.width_px, info_.height_px);
  if (payload < image) {
    throw CameraError("the camera's payload of " + std::to_string(payload) +
                      " bytes is smaller than an image of " + std::to_string(image));
  }
  pixel_format_ = checked("reading the pixel format", arv_camera_get_pixel_format, camera);
  frame_ids_.emplace(!gige, shared_.next_frame_id);
  stream_.reset(checked("making the stream of " + identity_.description, arv_camera_create_stream,
                        camera, ArvStreamCallback{&Connection::on_stream_event},
                        static_cast<void*>(this)));
  if (!stream_) throw CameraError("the camera " + identity_.description + " makes no stream");
  if (gige) tune_network_stream(stream_.get(), shared_.settings);
  g_signal_connect(stream_.get(), "new-buffer", G_CALLBACK(&Connection::on_new_buffer), this);
  arv_stream_set_emit_signals(stream_.get(), 1);
  make_buffers(payload);
}

void Connection::make_buffers(std::size_t payload_bytes) {
  slots_.resize(static_cast<std::size_t>(shared_.settings.buffers));
  for (FrameSlot& slot : slots_) {
    slot.memory.resize(payload_bytes);
    slot.buffer.reset(arv_buffer_new_full(slot.memory.size(), slot.memory.data(), &slot, nullptr));
    slot.frame.pixels = slot.memory.data();
    slot.frame.format = info_.format;
    slot.frame.width_px = info_.width_px;
    slot.frame.height_px = info_.height_px;
    slot.frame.offset_x_px = info_.offset_x_px;
    slot.frame.offset_y_px = info_.offset_y_px;
    g_object_ref(slot.buffer.get());
    give_to_aravis(stream_.get(), slot);
  }
}

void Connection::close(bool camera_is_there) noexcept {
  if (!camera_) return;
  g_signal_handlers_disconnect_by_data(arv_camera_get_device(camera_.get()), this);
  if (camera_is_there) {
    Failure ignored;
    arv_camera_stop_acquisition(camera_.get(), ignored.out());
  }
  if (stream_) {
    arv_stream_set_emit_signals(stream_.get(), 0);
    stream_.reset();  // joins Aravis' stream thread
  }
  camera_.reset();
  // Buffers in the mailbox or with the loop never went back into Aravis' queues.
  for (FrameSlot& slot : slots_) {
    if (!slot.with_aravis && slot.buffer) g_object_unref(slot.buffer.get());
    slot.buffer.reset();
  }
}

// ---- Aravis' threads ----

void Connection::on_stream_event(void* self, ArvStreamCallbackType type, ArvBuffer* /*buffer*/) {
  const auto& connection = *static_cast<const Connection*>(self);
  if (type != ARV_STREAM_CALLBACK_TYPE_INIT) return;
  const auto& prepare_thread = connection.shared_.settings.on_stream_thread_start;
  if (prepare_thread) prepare_thread();
}

void Connection::on_control_lost(ArvDevice* /*device*/, gpointer self) {
  static_cast<Connection*>(self)->control_lost_ = true;
}

void Connection::on_new_buffer(ArvStream* stream, gpointer self) {
  auto& connection = *static_cast<Connection*>(self);
  connection.last_buffer_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  while (ArvBuffer* buffer = arv_stream_try_pop_buffer(stream)) {
    auto* slot = static_cast<FrameSlot*>(const_cast<void*>(arv_buffer_get_user_data(buffer)));
    slot->with_aravis = false;
    connection.accept(stream, *slot);
  }
}

void Connection::accept(ArvStream* stream, FrameSlot& slot) noexcept {
  ArvBuffer* buffer = slot.buffer.get();
  if (!is_whole(slot)) {
    count_incomplete(buffer);
    return give_to_aravis(stream, slot);
  }
  if (!is_as_configured(buffer)) {
    format_changed_ = true;
    return give_to_aravis(stream, slot);
  }
  last_whole_ns_.store(last_buffer_ns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  incomplete_in_a_row_.store(0, std::memory_order_relaxed);
  const auto [id, lost] = frame_ids_->next(arv_buffer_get_frame_id(buffer));
  shared_.next_frame_id.store(id + 1, std::memory_order_relaxed);
  if (lost > 0) shared_.lost.fetch_add(lost, std::memory_order_relaxed);
  slot.frame.id = id;
  slot.frame.line_padding_bytes = line_padding_bytes(buffer);
  slot.frame.camera_time_ns =
      has_clock_ ? static_cast<std::int64_t>(arv_buffer_get_timestamp(buffer)) : 0;
  slot.frame.arrival_ns = last_buffer_ns_.load(std::memory_order_relaxed);

  const auto removed = mailbox_.publish(&slot);
  if (removed.fresh) shared_.superseded.fetch_add(1, std::memory_order_relaxed);
  if (removed.item != nullptr) give_to_aravis(stream, *removed.item);
  shared_.doorbell.ring();
}

void Connection::count_incomplete(ArvBuffer* buffer) noexcept {
  const ArvBufferStatus status = arv_buffer_get_status(buffer);
  if (status == ARV_BUFFER_STATUS_ABORTED) return;  // of our own closing
  shared_.incomplete.fetch_add(1, std::memory_order_relaxed);
  if (status != ARV_BUFFER_STATUS_MISSING_PACKETS && status != ARV_BUFFER_STATUS_TIMEOUT) return;
  if (incomplete_in_a_row_.load(std::memory_order_relaxed) == 0)
    incomplete_since_ns_.store(last_buffer_ns_.load(std::memory_order_relaxed),
                               std::memory_order_relaxed);
  incomplete_in_a_row_.fetch_add(1, std::memory_order_relaxed);
}

/// Only a buffer with status success may be asked anything more: others hold stale sizes and ids. A
/// camera that ends a frame early still gets that status, so the size counts too.
bool Connection::is_whole(const FrameSlot& slot) const noexcept {
  ArvBuffer* buffer = slot.buffer.get();
  if (arv_buffer_get_status(buffer) != ARV_BUFFER_STATUS_SUCCESS) return false;
  if (arv_buffer_get_payload_type(buffer) != ARV_BUFFER_PAYLOAD_TYPE_IMAGE) return true;
  std::size_t size = 0;
  arv_buffer_get_image_data(buffer, &size);  // the sum of what came, whatever there is room for
  size = std::min(size, slot.memory.size());
  if (arv_buffer_get_image_pixel_format(buffer) != pixel_format_) return true;
  Frame said;
  said.format = info_.format;
  said.width_px = arv_buffer_get_image_width(buffer);
  said.height_px = arv_buffer_get_image_height(buffer);
  said.line_padding_bytes = line_padding_bytes(buffer);
  return is_held_by(said, size);
}

/// Cameras may have each line begin at a whole word.
int Connection::line_padding_bytes(ArvBuffer* buffer) noexcept {
  gint x = 0;
  gint y = 0;
  arv_buffer_get_image_padding(buffer, &x, &y);
  return std::max(x, 0);
}

bool Connection::is_as_configured(ArvBuffer* buffer) const noexcept {
  return arv_buffer_get_payload_type(buffer) == ARV_BUFFER_PAYLOAD_TYPE_IMAGE &&
         arv_buffer_get_image_pixel_format(buffer) == pixel_format_ &&
         arv_buffer_get_image_width(buffer) == info_.width_px &&
         arv_buffer_get_image_height(buffer) == info_.height_px;
}

void Connection::give_to_aravis(ArvStream* stream, FrameSlot& slot) noexcept {
  slot.with_aravis = true;
  arv_stream_push_buffer(stream, slot.buffer.get());
}

// ---- the supervisor ----

std::string Connection::loss(std::int64_t now_ns) const {
  if (control_lost_) return "the control connection broke";
  if (format_changed_) return "the camera sends images of another size or kind than configured";
  if (only_incomplete()) {
    const int frames = incomplete_in_a_row_.load(std::memory_order_relaxed);
    return "the last " + std::to_string(frames) +
           " frames came incomplete: " + packets_in_words(camera_.get(), packet_size_bytes_) +
           ". A switch on the way may carry less, or lose packets";
  }
  if (stall_ns_ == 0) return "";
  const std::int64_t silent_ns = silence_ns(now_ns);
  if (silent_ns <= longest_silence_ns()) return "";
  return "no frame for " + std::to_string(silent_ns / 1'000'000) + " ms";
}

std::int64_t Connection::silence_ns(std::int64_t now_ns) const noexcept {
  return now_ns - std::max(last_buffer_ns_.load(std::memory_order_relaxed), started_ns_);
}

/// That is no loss.
std::int64_t Connection::longest_silence_ns() const noexcept {
  const bool begun = last_buffer_ns_.load(std::memory_order_relaxed) != 0;
  return begun ? stall_ns_ : std::max(stall_ns_, kFirstFrameNs);
}

KnownPackets Connection::packets() const {
  const bool one_was_whole = last_whole_ns_.load(std::memory_order_relaxed) > 0;
  return {.fit = one_was_whole, .do_not_fit = !one_was_whole && only_incomplete()};
}

bool Connection::only_incomplete() const noexcept {
  const std::int64_t since_ns = last_buffer_ns_.load(std::memory_order_relaxed) -
                                incomplete_since_ns_.load(std::memory_order_relaxed);
  return packet_size_bytes_ > 0 && since_ns > kFirstFrameNs &&
         incomplete_in_a_row_.load(std::memory_order_relaxed) >= kIncompleteInARow;
}

StreamStatistics Connection::statistics() const {
  StreamStatistics statistics;
  if (!stream_) return statistics;
  guint64 completed = 0;
  guint64 failures = 0;
  guint64 underruns = 0;
  arv_stream_get_statistics(stream_.get(), &completed, &failures, &underruns);
  statistics.underruns = underruns;
  if (ARV_IS_GV_STREAM(stream_.get())) {
    guint64 resent = 0;
    guint64 missing = 0;
    arv_gv_stream_get_statistics(ARV_GV_STREAM(stream_.get()), &resent, &missing);
    statistics.resent_packets = resent;
    statistics.missing_packets = missing;
  }
  return statistics;
}

bool Connection::is_there(std::int64_t now_ns) const noexcept {
  return now_ns - last_buffer_ns_.load(std::memory_order_relaxed) < kJustNowNs;
}

ClockRate Connection::clock_rate(std::int64_t now_ns, bool wanted) {
  return clock_watch_.update(camera_.get(), now_ns, wanted, is_there(now_ns));
}

bool Connection::heartbeat_is_due(std::int64_t now_ns) const noexcept {
  const bool expected = stall_ns_ == 0 || silence_ns(now_ns) <= longest_silence_ns() / 2;
  return packet_size_bytes_ > 0 && now_ns >= next_heartbeat_ns_ && expected;
}

void Connection::keep_control(std::int64_t now_ns) noexcept {
  next_heartbeat_ns_ = now_ns + shared_.settings.heartbeat_timeout_ms * std::int64_t{250'000};
  send_heartbeat(camera_.get());
}

double Connection::temperature_c() noexcept {
  try {
    // The standard's feature first, then that of one maker from before the standard.
    for (const char* name : {"DeviceTemperature", "TemperatureAbs"}) {
      if (!has(camera_.get(), name)) continue;
      Failure failure;
      const double value = arv_camera_get_float(camera_.get(), name, failure.out());
      if (!failure) return value;
    }
  } catch (const std::exception&) {  // it does not answer
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string Connection::set_output(bool high) noexcept {
  try {
    return output_.set(camera_.get(), high);
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string Connection::adjust_exposure(const AravisSettings& wanted, const ExposureOrder& order) {
  std::string problem = aravis::adjust_exposure(camera_.get(), wanted, order, info_);
  SourceInfo now = info_;  // without the note
  stall_ns_ = stall_time_ns(wanted, now);
  return problem;
}

std::string Connection::set_slowness(double share) noexcept {
  try {
    return change_frame_rate(camera_.get(), info_.frame_rate_hz / (1 + share));
  } catch (const std::exception& error) {
    return error.what();
  }
}

void Connection::software_trigger() {
  checked("the software trigger", arv_camera_software_trigger, camera_.get());
}

}  // namespace driftd::camera::aravis
