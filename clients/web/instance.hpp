// SPDX-License-Identifier: MIT
// One daemon as the page sees it: what it publishes, what is asked of it for all tabs together, and
// what is kept of the past. Finds the daemon wherever it listens and whenever it starts. One
// thread, which nothing in here holds up.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/common/subscriber.hpp"
#include "clients/web/history.hpp"
#include "clients/web/inbox.hpp"
#include "clients/web/messages.hpp"
#include "clients/web/recent_places.hpp"
#include "clients/web/requests.hpp"
#include "config/config.hpp"

namespace driftd::web {

struct InstanceOptions {
  std::string name;
  std::filesystem::path file;  ///< of `config`; empty: the defaults
  config::Config config;
  bool in_folder = false;  ///< its sockets are those of driftd@NAME
  bool operate = false;    ///< commands that act may be sent
};

/// What its tabs want, of all of them.
struct Wanted {
  std::vector<View> images;
  bool spectrum = false;
  bool tabs = false;  ///< there are some
};

class Instance {
 public:
  /// To all tabs of this instance. @param slot  as Viewer::send() has it
  using Tell =
      std::function<void(const std::shared_ptr<const std::string>& message, std::string_view slot)>;
  /// To the tabs that want this.
  using Show =
      std::function<void(const std::shared_ptr<const std::string>& message, const View& view)>;
  /// Given the answer of a command, and its status of HTTP.
  using Answer = std::function<void(unsigned status, nlohmann::json reply)>;

  /// @param context  of the process: each has threads of its own
  Instance(zmq::context_t& context, InstanceOptions options, Tell tell, Show show);

  const std::string& name() const noexcept { return options_.name; }
  /// What a command may do: `observe` or `operate`; and why not more, a sentence.
  bool may_operate() const noexcept { return options_.operate && daemon_lets_ != Lets::Observe; }
  std::string why_observe() const;
  const config::Config& config() const noexcept { return options_.config; }
  const std::filesystem::path& file() const noexcept { return options_.file; }
  bool in_folder() const noexcept { return options_.in_folder; }
  /// The daemon's last; null where none was heard.
  const nlohmann::json& status() const noexcept { return status_; }
  /// Of the daemon: another one after each start.
  const std::string& session() const noexcept { return session_; }

  /// What a new tab is told after `hello`: the state and the past; and of the day's history what
  /// may come when nothing else waits.
  std::vector<std::string> past() const;
  std::vector<std::string> day() const;
  /// Often: takes what came, asks for what is due.
  void turn(const Wanted& wanted, std::int64_t now_ns);
  /// A command of a tab's. `answer` is called once, now or later.
  /// @param forbidden  why this visitor's may not act, whatever the daemon lets; "": they may
  void command(const nlohmann::json& command, const std::string& forbidden, std::int64_t now_ns,
               Answer answer);

  /// The next frame as it is. `done` is called once, now or later; with nothing where none came.
  void whole_picture(std::int64_t now_ns, Requests::Done done);

  /// Counts how often may_operate() or config() may have changed, or another daemon came.
  std::uint64_t changes() const noexcept { return changes_; }

 private:
  enum class Lets { Unknown, Observe, Operate };
  struct Endpoints {
    std::string publish, corrections, commands;
  };
  Endpoints endpoints() const;
  void follow_wire();
  void connect(std::int64_t now_ns);
  void disconnect();
  void take(const clients::Message& message, std::int64_t now_ns);
  void take_status(const nlohmann::json& status, std::int64_t now_ns);
  void tell_advice();
  /// A daemon that was started anew: nothing of the one before stays.
  void take_session(const nlohmann::json& body);
  void forget_markers();
  void read_config();
  void take_event(const nlohmann::json& event);
  void tell_events();
  void take_position(std::string_view position);
  void ask_status(std::int64_t now_ns);
  void ask_access(std::int64_t now_ns);
  void ask_snapshot(const Wanted& wanted, std::int64_t now_ns);
  void flush(std::int64_t now_ns);
  void tell_spectrum(bool wanted, std::int64_t now_ns);
  void say_gone(const std::string& reason);
  void tell(const nlohmann::json& header, std::string_view slot);

  zmq::context_t& context_;
  InstanceOptions options_;
  Tell tell_;
  Show show_;

  std::unique_ptr<Inbox> published_, corrections_, axial_corrections_;
  std::unique_ptr<Requests> observe_, operate_;
  Endpoints at_;
  Lets daemon_lets_ = Lets::Unknown;
  std::string roles_;
  std::uint64_t changes_ = 0;
  std::string session_;  ///< of the daemon that was heard last

  std::string gone_ = "the daemon has not been heard yet";  ///< "": it is there
  nlohmann::json status_, markers_, advice_;
  nlohmann::json correction_;  ///< and what `axial` adds to it
  std::deque<nlohmann::json> events_;
  std::size_t fresh_events_ = 0;  ///< of them: not told yet
  History history_;
  RecentPlaces recent_;
  bool places_are_new_ = false;  ///< since the spectrum was told
  SampleSieve sieve_;
  std::vector<Sample> fresh_;
  std::deque<Sample> minute_;
  std::vector<View> views_;

  std::int64_t connected_ns_ = 0, status_ns_ = 0, flushed_ns_ = 0, access_ns_ = 0, snapshot_ns_ = 0,
               spectrum_ns_ = 0, markers_told_ns_ = 0, connect_again_ns_ = 0;
  bool tabs_ = false;  ///< whom to tell
  bool status_due_ = false, status_asked_ = false, snapshot_asked_ = false, markers_due_ = false;
};

}  // namespace driftd::web
