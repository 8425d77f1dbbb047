// SPDX-License-Identifier: MIT
// What housekeeping and the recorder's thread exchange: orders and rows one way, notices and the
// status the other. Both hold the lock for moments only, never while they wait for anything; so
// housekeeping goes on while a disk stands still.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/loop/record_feed.hpp"
#include "daemon/recorder/record_folder.hpp"
#include "record/file_writer.hpp"

namespace driftd::daemon {

struct RecordSettings {
  std::filesystem::path folder;
  std::int64_t max_file_bytes = 0, max_file_ns = 0;
  Retention retention;
};

/// To begin a recording.
struct RecordOrder {
  RecordSettings settings;
  record::Header header;
  double frame_rate_hz = 0;  ///< 0: not known
  std::size_t markers = 0;   ///< that there are now
};

struct RecordNotice {
  enum class Kind : std::uint8_t {
    Begun,
    NotBegun,
    NextFile,
    Ended,   ///< as was ordered
    Failed,  ///< the recording is over all the same
    Removed,
  };
  Kind kind;
  std::filesystem::path file;
  std::string text;  ///< why
};

struct RecordStatus {
  bool recording = false;
  std::filesystem::path file;
  std::int64_t since_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t frames = 0;   ///< of this recording
  std::int64_t bytes = 0;     ///< of this recording
};

/// What comes a few times a second.
struct SlowRows {
  std::vector<record::Event> events;
  std::vector<record::StageRow> stage;
  std::vector<record::CounterRow> counters;
  std::vector<record::PatternRow> pattern;
};

class RecorderDesk {
 public:
  static constexpr std::size_t kMostRows = 4096;  ///< of each kind that wait; further ones are lost

  explicit RecorderDesk(std::shared_ptr<RecordFeed> its_feed) : feed(std::move(its_feed)) {}

  const std::shared_ptr<RecordFeed> feed;

  // Housekeeping.
  void order(RecordOrder order) {
    change([&] {
      begin_ = std::move(order);
      end_.reset();  // it was of a recording that ended before by itself
    });
  }
  void end(std::string why) {
    change([&] { end_ = std::move(why); });
  }
  void quit() {
    change([&] { quit_ = true; });
  }
  template <typename Row>
  void add(std::vector<Row> SlowRows::*rows, Row row) {
    const std::lock_guard lock(mutex_);
    if (status_.recording && (rows_.*rows).size() < kMostRows)
      (rows_.*rows).push_back(std::move(row));
  }
  std::vector<RecordNotice> take_notices() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notices_, {});
  }
  RecordStatus status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  /// Since when the thread waits for the disk; 0: it does not.
  std::int64_t waits_since_ns() const noexcept { return waits_since_ns_.load(); }

  // The recorder's thread.
  struct Orders {
    std::optional<RecordOrder> begin;
    std::optional<std::string> end;
    bool quit = false;
    SlowRows rows;
  };
  /// Waits for an order, but no longer.
  Orders take(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [this] { return begin_ || end_ || quit_; });
    return {std::exchange(begin_, {}), std::exchange(end_, {}), quit_, std::exchange(rows_, {})};
  }
  void tell(RecordNotice notice, const RecordStatus& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    notices_.push_back(std::move(notice));
  }
  void tell(const RecordStatus& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  void waits(std::int64_t since_ns) noexcept { waits_since_ns_.store(since_ns); }

 private:
  template <typename Change>
  void change(Change what) {
    {
      const std::lock_guard lock(mutex_);
      what();
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RecordOrder> begin_;
  std::optional<std::string> end_;
  bool quit_ = false;
  SlowRows rows_;
  std::vector<RecordNotice> notices_;
  RecordStatus status_;
  std::atomic<std::int64_t> waits_since_ns_{0};
};

}  // namespace driftd::daemon
