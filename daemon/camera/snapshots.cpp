// SPDX-License-Identifier: MIT
#include "daemon/camera/snapshots.hpp"

#include <algorithm>

#include "daemon/status/status_messages.hpp"

namespace driftd::daemon {
namespace {

constexpr std::size_t kMostWaiting = 32;
/// Bytes of all peers together. Beyond them nobody gets a snapshot until somebody reads.
constexpr std::size_t kMostUnreadBytes = std::size_t{64} << 20;

/// Little-endian, whatever this machine is.
std::vector<std::uint8_t> bytes_of(const FrameImage& image) {
  const auto count = static_cast<std::size_t>(image.frame.width_px) *
                     static_cast<std::size_t>(image.frame.height_px);
  std::vector<std::uint8_t> bytes(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[2 * i] = static_cast<std::uint8_t>(image.pixels[i] & 0xff);
    bytes[2 * i + 1] = static_cast<std::uint8_t>(image.pixels[i] >> 8);
  }
  return bytes;
}

}  // namespace

void Snapshots::request(Answer answer, std::int64_t now_ns) {
  if (!camera_.connected()) throw camera_.away();
  if (waiting_.size() >= kMostWaiting) {
    throw CommandRefused{Refusal::Busy, "too many snapshots are waited for"};
  }
  if (unread_bytes() >= kMostUnreadBytes) {
    throw CommandRefused{Refusal::Busy, "too many snapshots have not been read"};
  }
  waiting_.push_back({now_ns + camera_.frame_limit_ns(loop_.report()), std::move(answer)});
}

void Snapshots::turn(std::int64_t now_ns) {
  FrameCopy& copy = loop_.frames().snapshot;
  const std::unique_ptr<FrameImage> image = copy.take();
  if (waiting_.empty()) return;
  if (image && image->fits) return answer_all(*image);
  if (!camera_.connected()) {
    copy.withdraw();
    return refuse_pending(camera_.away());
  }
  const auto late = std::stable_partition(waiting_.begin(), waiting_.end(),
                                          [&](const Waiting& w) { return now_ns <= w.until_ns; });
  for (auto waiting = late; waiting != waiting_.end(); ++waiting) {
    waiting->answer(CommandRefused{Refusal::NoFrame, "no frame came in time"});
  }
  waiting_.erase(late, waiting_.end());
  if (waiting_.empty()) return copy.withdraw();
  if (copy.pending()) return;
  camera_.look();
  copy.ask(camera_.frame_pixels());
}

void Snapshots::refuse_pending(const CommandRefused& refused) {
  std::vector<Waiting> waiting;
  waiting.swap(waiting_);
  for (const Waiting& w : waiting) w.answer(refused);
}

void Snapshots::answer_all(const FrameImage& image) {
  const camera::Frame& frame = image.frame;
  const auto pixels = std::make_shared<const Pixels>(bytes_of(image));
  Reply reply{.fields = {{"frame",
                          {{"frame_id", frame.id},
                           {"width_px", frame.width_px},
                           {"height_px", frame.height_px},
                           {"offset_x_px", frame.offset_x_px},
                           {"offset_y_px", frame.offset_y_px},
                           {"bits", camera::bits_per_pixel(frame.format)},
                           {"rois", rois(frame)}}}},
              .attachment = pixels};
  unread_.push_back(pixels);
  std::vector<Waiting> waiting;
  waiting.swap(waiting_);
  for (const Waiting& w : waiting) w.answer(reply);
}

/// ROIs lie on the sensor; here they are counted within the frame.
nlohmann::json Snapshots::rois(const camera::Frame& frame) const {
  nlohmann::json rois = nlohmann::json::array();
  const MarkersReport& report = loop_.markers();
  for (std::size_t i = 0; i < report.count; ++i) {
    const MarkersReport::Entry& e = report.entries[i];
    rois.push_back({{"id", e.marker.id},
                    {"role", name_of(e.marker.role)},
                    {"health", control::name_of(e.result.health)},
                    {"x_px", e.roi.x_px - frame.offset_x_px},
                    {"y_px", e.roi.y_px - frame.offset_y_px},
                    {"side_px", roi_px_()}});
  }
  return rois;
}

std::size_t Snapshots::unread_bytes() {
  std::size_t bytes = 0;
  std::erase_if(unread_, [&](const std::weak_ptr<const Pixels>& pixels) {
    const auto held = pixels.lock();
    if (held) bytes += held->size();
    return !held;
  });
  return bytes;
}

}  // namespace driftd::daemon
