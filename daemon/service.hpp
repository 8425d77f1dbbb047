// SPDX-License-Identifier: MIT
// The service: composes camera, fitter, control and wire from a configuration, owns their threads,
// and does the housekeeping on the calling thread: commands, status, marker search, events, reload,
// watchdog. Everything here may allocate, log and throw; the loop is never waited for while it
// locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "camera/frame_source.hpp"
#include "config/config.hpp"
#include "control/constellation.hpp"
#include "control/marker_detection.hpp"
#include "daemon/command_server.hpp"
#include "daemon/event_log.hpp"
#include "daemon/publisher.hpp"
#include "daemon/settled.hpp"
#include "daemon/status_messages.hpp"
#include "daemon/tracking_loop.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

constexpr std::int64_t kMillisecond = 1'000'000;  // ns

class Service {
 public:
  /// Composes and binds; starts nothing yet. @throws SocketError, RealTimeError,
  /// camera::CameraError
  Service(config::Config config, std::filesystem::path file);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Until SIGTERM, SIGINT or the end of a recording. SIGHUP reloads the configuration. The caller
  /// has blocked these three signals in every thread. @throws camera::CameraError
  void run();

 private:
  using Json = nlohmann::json;

  void start_threads();
  void stop_threads() noexcept;
  void schedule(int priority, int cpu, const char* thread_name);
  void check_real_time();
  void wait_for_subscriber();

  // Housekeeping, one turn.
  void turn();
  bool take_signals();  ///< false: stop
  void collect();       ///< what the loop and the source gave back or tell
  void tell_lock_change(const LockChange& change);
  void tell_source_events();
  void tell_health_changes();
  void look_for_markers();
  void engage_at_start();
  bool are_markers_gone(std::int64_t now_ns);
  void find_markers_again();
  void tell_search(const control::ConstellationMatch& match, int total);
  void publish_at_intervals();
  void feed_watchdog();
  void reload();

  // Commands.
  void carry_out(const Json& request, Json& reply, std::vector<std::uint8_t>& attachment);
  void lock(Json& reply);
  void unlock(Json& reply);
  void reset(Json& reply);
  void markers(const Json& request, Json& reply);
  void snapshot(Json& reply, std::vector<std::uint8_t>& attachment);
  void command(LoopCommand command);
  bool fetch_frame();
  std::size_t adopt_markers();
  template <typename Condition>
  bool wait_for(Condition condition, int timeout_ms);
  Json status();

  config::Config config_;
  std::filesystem::path file_;
  bool recording_;
  std::string session_;
  std::int64_t start_ns_;

  std::unique_ptr<camera::FrameSource> source_;
  camera::SourceInfo source_info_;
  std::unique_ptr<fitter::LiveFitter> fitter_;
  std::string fitter_reason_;
  fitter::Estimator estimator_ = fitter::Estimator::ImplicitLeastSquares;
  std::string estimator_reason_;
  bool told_fitter_failed_ = false;
  LoopPorts ports_;
  Publisher publisher_;
  EventLog events_;
  CommandServer commands_;
  std::unique_ptr<TrackingLoop> loop_;
  std::thread loop_thread_;
  int signal_fd_ = -1;

  RealTimeReport realtime_;
  std::mutex realtime_mutex_;  // threads report their scheduling at their start

  std::uint64_t lock_id_ = 0;
  bool has_markers_ = false;
  bool locked_at_start_ = false;
  bool search_pending_ = false;
  std::int64_t next_search_ns_ = 0;
  bool told_none_found_ = false;
  enum class ToldSearch : std::uint8_t { Nothing, Found, NotFound };
  ToldSearch told_search_ = ToldSearch::Nothing;  ///< since the markers were gone
  std::uint64_t marker_searches_ = 0;             ///< for markers that were gone ...
  std::uint64_t markers_found_again_ = 0;         ///< ... and how many of them found them
  std::vector<control::Rejection> rejected_;
  std::vector<Settled<control::MarkerHealth>> health_;
  std::uint8_t known_limited_ = 0;
  std::uint64_t known_dropped_ = 0;
  std::int64_t next_status_ns_ = 0;
  std::int64_t next_markers_ns_ = 0;
  std::uint64_t markers_frame_id_ = 0;
  std::uint64_t watchdog_us_ = 0;
  std::int64_t next_watchdog_ns_ = 0;
  std::uint64_t fed_turns_ = 0;
  std::uint64_t fed_sent_ = 0;
  bool stop_ = false;
};

}  // namespace driftd::daemon
