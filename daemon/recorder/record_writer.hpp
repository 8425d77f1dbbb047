// SPDX-License-Identifier: MIT
// The recorder's work: takes frames out of the feed, joins them with what the publisher made of
// them, and writes files, one after another by size and time, until it is told to end or the disk
// makes it end. Its own thread, run by Recorder; it may wait for the disk as long as that takes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/recorder/recorder_desk.hpp"
#include "record/file_writer.hpp"

namespace driftd::daemon {

class RecordWriter {
 public:
  explicit RecordWriter(RecorderDesk& desk) : desk_(desk), feed_(*desk.feed) {}

  /// Writes until the desk says to quit.
  void run() noexcept;

 private:
  void turn(RecorderDesk::Orders& orders);
  void begin(RecordOrder order);
  void open_file();
  void end(RecordNotice::Kind kind, const std::string& why) noexcept;
  void forget() noexcept;
  void drain();
  bool join(RecordedFrame& frame);
  void write(bool everything);
  void look_after(std::int64_t now_ns);
  void retain();
  void tell_status();
  std::size_t whole_chunks() const noexcept;

  RecorderDesk& desk_;
  RecordFeed& feed_;
  RecordOrder order_;
  std::unique_ptr<record::FileWriter> file_;
  RecordStatus status_;
  record::ChunkRows chunk_;
  std::int64_t bytes_before_ = 0;  ///< of the files before this one
  std::int64_t file_since_ns_ = 0, written_ns_ = 0, looked_ns_ = 0;
  std::uint64_t file_frames_ = 0;
  record::ClockRow clock_;

  std::deque<RecordedFrame> waiting_;  ///< for the publisher's word
  std::deque<SentFrame> sent_;
  std::vector<record::FrameRow> frames_;  ///< to be written, as the following
  std::vector<std::uint16_t> counts_;
  std::vector<record::LocalizationRow> localizations_;
  std::vector<record::ClockRow> clocks_;
  SlowRows slow_;
};

}  // namespace driftd::daemon
