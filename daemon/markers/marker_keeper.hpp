// SPDX-License-Identifier: MIT
// Keeps the loop supplied with markers: looks for the first ones, for new ones or those of a place
// on command, for what somebody pointed at, and for those that have left their ROIs. A worker
// looks; this decides when, in what, and what becomes of the result. Housekeeping thread; nothing
// here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/markers/search_worker.hpp"
#include "daemon/resume/lock_recovery.hpp"
#include "daemon/resume/marker_sizes.hpp"
#include "daemon/setup/fitter_choice.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// "; 312 fainter spots were not looked at"; "" of none.
std::string spots_left_out_text(std::size_t spots);

/// A saved place's markers that are to be found.
struct WantedPlace {
  SavedLock markers;
  /// Why they are not to be used where they were found, for people; "": they are.
  std::function<std::string(const control::ConstellationMatch&)> refuses;
};

class MarkerKeeper {
 public:
  /// @param config  the one in force
  /// @param fitter  its estimator is the one for new markers, too; replaced where the spots of the
  ///   image want another ROI
  /// @param interrupted  whose markers are looked for before any others
  MarkerKeeper(const config::Config& config, ChosenFitter& fitter, CameraWatch& camera,
               LoopControl& loop, EventLog& events, LockRecovery* interrupted = nullptr)
      : config_(config),
        fitter_(fitter),
        camera_(camera),
        loop_(loop),
        events_(events),
        interrupted_(interrupted) {}

  /// Goes on with the search under way, or begins one that is due.
  void turn(std::int64_t now_ns);
  /// Looks for markers anew, or takes those listed anew; answered when the loop has measured them,
  /// or when there are too few.
  /// @throws CommandRefused at once: not possible now
  void find(Answer answer, std::int64_t now_ns);
  /// Looks for those of a place, and for no others; answered when the loop has measured them
  /// against their references, or when they are not used, with nothing changed.
  /// @throws CommandRefused at once: not possible now
  void find_place(WantedPlace place, Answer answer, std::int64_t now_ns);
  /// Changes those in use as somebody chose, whole or not at all: without the references that they
  /// had. Answered when the loop has measured them, or when nothing is changed. They stay until
  /// find(), find_place() or this changes them. @throws CommandRefused at once: not possible now
  void choose(MarkerChoice choice, Answer answer, std::int64_t now_ns);
  /// Gives the loop those in use anew, with places of now and without references, as the camera is
  /// exposed otherwise; those of a lock to go back to keep what they have.
  /// @param gain_changed  a saturation that an image showed may be another, too
  /// @returns false, with nothing begun, where there is nothing to renew; no answer comes then
  /// @throws CommandRefused at once: not possible now
  bool renew(bool gain_changed, Answer answer, std::int64_t now_ns);
  /// The camera's exposure changes, or has changed: what is searched has a picture of before, and
  /// is dropped. Nothing else is looked for while it changes.
  void set_exposure_changes(bool changes);
  /// Answers who waits for a place: it is not wanted any more.
  void forget_place(const CommandRefused& refused);
  /// Answers the find that waits, if there is one.
  void refuse_pending(const CommandRefused& refused) { end_find(refused); }

  bool has_markers() const noexcept { return has_markers_; }
  /// Whether somebody chose them by command.
  bool are_chosen() const noexcept { return chosen_; }
  /// Whether another configuration lists those in use, with their roles, where they are now.
  bool are_listed(const config::Config& after) const;
  /// Why nothing can be locked by those in use; "": nothing is against it.
  std::string too_few() const;
  bool find_pending() const noexcept { return find_.has_value(); }
  /// A thread of its own does, and nothing else is waited for.
  bool is_searching() const noexcept { return worker_.busy() && loop_.has_taken_all(); }
  /// The list of `markers`, as last reported.
  nlohmann::json markers() const;
  /// The reply to who asks for them: the list, and since when no frame has shown them.
  nlohmann::json listed() const;
  /// For markers that were gone, and how many of them found them.
  std::uint64_t searches() const noexcept { return searches_; }
  std::uint64_t found_again() const noexcept { return found_again_; }
  /// As chosen from the image; none: as configured, or not known yet.
  const std::optional<control::SpotSize>& size() const noexcept { return size_; }
  MarkerSizes sizes() const noexcept {
    return {.spot_sigma_px = size_ ? size_->sigma_px : 0,
            .roi_px = size_ ? size_->roi_px : 0,
            .saturation_adu = saturation_adu_,
            .chosen = chosen_};
  }

 private:
  enum class Stage : std::uint8_t { Idle, Frame, Search };  ///< of the search under way
  enum class ToldSearch : std::uint8_t { Nothing, Found, NotFound };
  /// A command to find markers, from its request to its answer.
  struct Find {
    enum class Stage : std::uint8_t { Asked, Begun, Adopted } stage = Stage::Asked;
    Answer answer;
    std::optional<WantedPlace> place = std::nullopt;    ///< none: any markers ...
    std::optional<MarkerChoice> choice = std::nullopt;  ///< ... but for a choice
    std::uint64_t of = 0;       ///< adopted_ of the markers that it was chosen of
    bool renews = false;        ///< which is none: the same once more
    std::int64_t until_ns = 0;  ///< for the frame, then for the markers' measurement
    nlohmann::json reply = nlohmann::json::object();
  };

  bool drop_outdated();
  void adopt_listed();
  bool are_gone(std::int64_t now_ns);
  void begin_if_due(std::int64_t now_ns);
  void ask_for_frame(std::int64_t now_ns);
  void take_frame(std::int64_t now_ns);
  void finish_again(const MarkerSearchResult& result, std::int64_t now_ns);
  void finish_new(const MarkerSearchResult& result, std::int64_t now_ns);
  const SavedLock* before(bool anew = false) const;
  bool may_find() const noexcept;
  void add_offer(nlohmann::json& reply) const;
  bool awaits_camera() const;
  SearchForBefore search_for(const SavedLock& lock, camera::PixelFormat format,
                             bool of_place) const;
  void finish_before(const MarkerSearchResult& result, std::int64_t now_ns);
  void finish_place(const MarkerSearchResult& result, std::int64_t now_ns);
  control::SpotSize size_of(const SavedLock& lock, const char* whose) const;
  bool adopt_saved(const SavedLock& lock, const MarkerSearchResult& result, const char* whose);
  void tell_saved(const MarkerSearchResult& result, const char* whose);
  void begin_find(Answer answer, std::int64_t now_ns);
  bool go_on_without_frame(std::int64_t now_ns);
  void relist(std::int64_t now_ns);
  bool are_measured() const noexcept;
  std::vector<control::Marker> kept(const MarkerChoice& choice) const;
  std::size_t most_markers() const noexcept;
  void check_same_markers() const;
  void check_choice(const MarkerChoice& choice) const;
  std::string outside(control::Vec2 place_px) const;
  void finish_choice(const MarkerSearchResult& result, std::int64_t now_ns);
  bool engaged_meanwhile();
  void await_measurement(nlohmann::json reply, std::int64_t now_ns);
  FitterMaker fitter_maker(camera::PixelFormat format) const;
  bool may_make_fitter() const noexcept;
  std::string no_fitter_for(const SavedLock& lock) const;
  bool adopt(const std::vector<control::Marker>& markers, const MarkerSearchResult& result = {},
             std::span<const control::MarkerReference> references = {},
             control::Vec2 displacement_px = {});
  void tell_size(const control::SpotSize& size);
  void learn_saturation(const control::ClipLevel& clip);
  /// With that size, and what is known of saturation.
  config::Config sized(const std::optional<control::SpotSize>& size) const;
  void go_on_with_find(std::int64_t now_ns);
  void end_find(const Outcome& outcome);
  void tell_search(const MarkerSearchResult& result, int total);

  const config::Config& config_;
  ChosenFitter& fitter_;
  /// The one before: the loop's last report may still name it.
  std::shared_ptr<fitter::LiveFitter> fitter_before_;
  std::optional<control::SpotSize> size_;
  int saturation_adu_ = 0;  ///< as images showed it; 0: as configured
  CameraWatch& camera_;
  LoopControl& loop_;
  EventLog& events_;
  LockRecovery* interrupted_;
  SearchWorker worker_;
  Stage stage_ = Stage::Idle;
  bool exposure_changes_ = false;
  bool outdated_ = false;  ///< the picture of the search under way
  std::optional<Find> find_;
  bool has_markers_ = false;
  bool chosen_ = false;                      ///< those in use, by command
  int tracking_ = 0;                         ///< so many of them
  std::optional<std::int64_t> searched_ns_;  ///< when a frame was asked for last; none: search now
  bool told_none_found_ = false;
  ToldSearch told_search_ = ToldSearch::Nothing;  ///< since the markers were gone
  std::uint64_t adopted_ = 0;                     ///< the markers, by this command to the loop
  std::uint64_t searches_ = 0;
  std::uint64_t found_again_ = 0;
};

}  // namespace driftd::daemon
