// SPDX-License-Identifier: MIT
#include "daemon/markers/marker_keeper.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "base/counted.hpp"
#include "daemon/orders/engaged_lock.hpp"
#include "daemon/setup/compose.hpp"
#include "daemon/status/status_messages.hpp"

namespace driftd::daemon {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;  // ns
/// Between two searches: soon for whoever puts a sample in, seldom enough to spare a core.
constexpr std::int64_t kSearchAgainNs = 1000 * kMillisecond;

nlohmann::json list_of(const std::vector<control::Rejection>& rejected) {
  nlohmann::json list = nlohmann::json::array();
  for (const control::Rejection& r : rejected) {
    list.push_back({{"x_px", r.x_px}, {"y_px", r.y_px}, {"reason", r.reason}});
  }
  return list;
}

int tracking_count(const std::vector<control::Marker>& markers) {
  return static_cast<int>(std::count_if(markers.begin(), markers.end(), [](const auto& m) {
    return m.role == control::MarkerRole::Tracking;
  }));
}

}  // namespace

std::string spots_left_out_text(std::size_t spots) {
  return spots == 0 ? "" : fmt::format("; {} fainter spots were not looked at", spots);
}

void MarkerKeeper::turn(std::int64_t now_ns) {
  if (find_) go_on_with_find(now_ns);
  if (outdated_ && !drop_outdated()) return;
  if (exposure_changes_) return;
  switch (stage_) {
    case Stage::Idle:
      return begin_if_due(now_ns);
    case Stage::Frame:
      return take_frame(now_ns);
    case Stage::Search:
      // What was ordered meanwhile, a lock above all, decides what the result is good for.
      if (!loop_.has_taken_all()) return;
      if (const auto result = worker_.take()) {
        stage_ = Stage::Idle;
        if (result->again) return finish_again(*result, now_ns);
        finish_new(*result, now_ns);
        loop_.let_recording_go_on();
      }
  }
}

void MarkerKeeper::begin_if_due(std::int64_t now_ns) {
  if (find_ && find_->stage == Find::Stage::Asked) {
    if (!go_on_without_frame(now_ns)) ask_for_frame(now_ns);
    return;
  }
  const bool listed = config_.markers.mode == config::MarkerMode::List;
  const bool wants_before = before() != nullptr;
  if (!has_markers_ && listed && !wants_before && !awaits_camera()) return adopt_listed();
  if (has_markers_ && !wants_before && !are_gone(now_ns)) return;
  if (!searched_ns_ || now_ns - *searched_ns_ >= kSearchAgainNs) ask_for_frame(now_ns);
}

void MarkerKeeper::set_exposure_changes(bool changes) {
  exposure_changes_ = changes;
  outdated_ = stage_ != Stage::Idle;
}

/// @returns false while the search of it is still under way
bool MarkerKeeper::drop_outdated() {
  const bool is_over =
      stage_ == Stage::Frame ? loop_.frames().search.take() != nullptr : worker_.take().has_value();
  if (!is_over) return false;
  stage_ = Stage::Idle;
  outdated_ = false;
  searched_ns_.reset();
  return true;
}

void MarkerKeeper::adopt_listed() {
  if (adopt(listed_markers(config_))) loop_.let_recording_go_on();
}

bool MarkerKeeper::are_gone(std::int64_t now_ns) {
  const LoopReport& loop = loop_.report();
  const std::int64_t since_ns = loop.markers_gone_since_ns;
  if (since_ns == 0) told_search_ = ToldSearch::Nothing;
  const std::int64_t after_ns = config_.markers.find_again_after_ms * kMillisecond;
  return since_ns != 0 && after_ns > 0 && too_few().empty() &&
         now_ns - since_ns >= loop.timeout_ns(after_ns, kFramesToSettle);
}

void MarkerKeeper::ask_for_frame(std::int64_t now_ns) {
  if (camera_.frame_pixels() == 0 || !loop_.frames().search.ask(camera_.frame_pixels())) return;
  stage_ = Stage::Frame;
  searched_ns_ = now_ns;
}

void MarkerKeeper::take_frame(std::int64_t now_ns) {
  std::unique_ptr<FrameImage> image = loop_.frames().search.take();
  if (!image) return;
  stage_ = Stage::Idle;
  if (!image->fits) {  // another camera than the one known
    camera_.look();
    searched_ns_.reset();
    return;
  }
  const bool needs_none = find_ && find_->choice && find_->choice->add.empty() && !find_->renews;
  const bool commanded = find_ && find_->stage == Find::Stage::Asked && !needs_none;
  const bool again = has_markers_ && !commanded && before() == nullptr;
  if (again && !are_gone(now_ns)) return;  // they are in their ROIs again
  const camera::PixelFormat format = image->frame.format;
  const config::Config config = sized(size_);
  MarkerSearch search{.image = std::move(image),
                      .detection = detection_settings(config, format),
                      .options = fit_options(config, format, fitter_.estimator),
                      .known = nullptr,
                      .constellation = constellation_settings(config)};
  if (commanded && find_->choice) {
    search.pointed = find_->choice->add;
    const std::size_t used = has_markers_ ? loop_.markers().count : 0;
    search.beside = used - std::min(used, find_->choice->remove.size());
  }
  if (again) {
    search.known = std::make_unique<MarkersReport>(loop_.markers());
  } else {
    search.finds_saturation = config_.camera.saturation_adu == 0;
    // Beside those in use others have their size.
    search.chooses_size = wants_sizes(config_) && (!search.pointed || !has_markers_);
    if (search.chooses_size) {
      search.detection = open_detection_settings(config_, format);
      search.detection.saturation_adu = detection_settings(config, format).saturation_adu;
    }
    search.fitter_roi_px = fitter_.fitter->roi_px();
    search.fitter_saturation_adu = fitter_.saturation_adu;
    search.fitter_capacity = fitter_.fitter->capacity();
    search.min_markers = config_.drift.min_markers;
    search.make_fitter = fitter_maker(format);
    if (commanded && find_->place)
      search.before = search_for(find_->place->markers, format, true);
    else if (const SavedLock* lock = before(commanded); lock != nullptr && !search.pointed)
      search.before = search_for(*lock, format, false);
  }
  if (!worker_.begin(std::move(search))) return;
  stage_ = Stage::Search;
  if (commanded) find_->stage = Find::Stage::Begun;
}

/// A resident kernel keeps the GPU from making another.
bool MarkerKeeper::may_make_fitter() const noexcept {
  return config_.cuda.mode != fitter::CudaMode::Resident ||
         config_.fitter.backend == config::Backend::Cpu;
}

FitterMaker MarkerKeeper::fitter_maker(camera::PixelFormat format) const {
  if (!may_make_fitter()) return nullptr;
  const bool gpu_failed = loop_.report().fitter_error != nullptr;
  return [config = config_, format, in_use = fitter_, gpu_failed](
             const control::DetectionSettings& found, std::size_t markers) {
    config::Config other = config::with_sizes(config, found.expected_sigma_px, found.roi_px);
    other.camera.saturation_adu = static_cast<int>(found.saturation_adu);
    return fitter_like(in_use, gpu_failed, other, format, markers);
  };
}

/// Tells the loop where the ROIs of the markers known have to be.
void MarkerKeeper::finish_again(const MarkerSearchResult& result, std::int64_t now_ns) {
  if (!result.failure.empty()) return spdlog::error("marker search: {}", result.failure);
  if (!are_gone(now_ns)) return;
  searches_++;
  if (result.match.found) {
    LoopCommand move{.kind = LoopCommand::Kind::MoveRois};
    move.displacement_px = result.match.displacement_px;
    if (!loop_.send(std::move(move))) return;  // the next search is due soon
    found_again_++;
  }
  tell_search(result, loop_.report().drift.markers_total);
}

/// Each outcome once for each time that the markers were gone.
void MarkerKeeper::tell_search(const MarkerSearchResult& result, int total) {
  const control::ConstellationMatch& match = result.match;
  const ToldSearch outcome = match.found ? ToldSearch::Found : ToldSearch::NotFound;
  if (outcome == told_search_) return;
  told_search_ = outcome;
  nlohmann::json fields = {
      {"found", match.matched}, {"markers", total}, {"spots_left_out", result.spots_left_out}};
  if (!match.found) {
    events_.raise(EventLog::Level::Warning, "markers_not_found_again",
                  match.reason + spots_left_out_text(result.spots_left_out), fields);
    return;
  }
  const control::Vec2 px = match.displacement_px;
  const double nm = config_.optics.pixel_size_nm;
  fields["displacement_x_px"] = px.x;
  fields["displacement_y_px"] = px.y;
  fields["displacement_x_nm"] = px.x * nm;
  fields["displacement_y_nm"] = px.y * nm;
  events_.raise(
      EventLog::Level::Info, "markers_found_again",
      fmt::format("{} of {}, {:.2f} px ({:.0f} nm) from their references{}", match.matched,
                  counted(total, "marker"), std::hypot(px.x, px.y), std::hypot(px.x, px.y) * nm,
                  spots_left_out_text(result.spots_left_out)),
      fields);
}

/// Hands new markers to the loop when there are enough.
void MarkerKeeper::finish_new(const MarkerSearchResult& result, std::int64_t now_ns) {
  const bool commanded = find_ && find_->stage == Find::Stage::Begun;
  if (!commanded && has_markers_ && before() == nullptr) return;
  if (result.of_place && !(commanded && find_->place)) return;  // forgotten meanwhile
  if (!result.failure.empty()) {
    spdlog::error("marker search: {}", result.failure);
    return end_find(CommandRefused{Refusal::Internal, result.failure});
  }
  if (commanded && find_->place) return finish_place(result, now_ns);
  if (commanded && find_->choice) return finish_choice(result, now_ns);
  if (result.before && result.match.found) return finish_before(result, now_ns);
  const std::vector<control::Marker>& markers = result.found.markers;
  const auto& rejected = result.found.rejected;
  const int tracking = tracking_count(markers);
  if (!commanded && has_markers_) {  // those in use stay
    const bool others = tracking >= config_.drift.min_markers || loop_.report().sees_drift();
    if (others && result.before) interrupted_->not_found(result.match.reason);
    return;
  }
  // Those listed are followed meanwhile: they show whether others are there, or all is dark.
  if (result.before && config_.markers.mode == config::MarkerMode::List) return adopt_listed();
  nlohmann::json told = {{"found", tracking},
                         {"rejected", rejected.size()},
                         {"spots_left_out", result.spots_left_out}};
  nlohmann::json reply = {{"rejected", list_of(rejected)},
                          {"spots_left_out", result.spots_left_out}};
  if (tracking < config_.drift.min_markers) {
    const bool sizeless = result.size && !result.size->chosen();
    const std::string text = fmt::format(
        "found {}, need {} (drift.min_markers); {}", counted(tracking, "marker"),
        config_.drift.min_markers,
        sizeless ? result.size->reason
                 : fmt::format("{} rejected{}{}", counted(rejected.size(), "spot"),
                               rejected.empty() ? "" : ", the first for " + rejected[0].reason,
                               spots_left_out_text(result.spots_left_out)));
    if (!told_none_found_) {
      events_.raise(EventLog::Level::Warning, "markers_not_found", text, told);
    }
    told_none_found_ = true;
    return end_find(CommandRefused{Refusal::NotFound, text, reply});
  }
  if (engaged_meanwhile()) return;
  if (!adopt(markers, result)) {
    return end_find(CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"});
  }
  if (interrupted_ != nullptr && interrupted_->asks()) {
    if (result.before)
      interrupted_->not_found(result.match.reason);
    else
      interrupted_->put_aside("markers were looked for anew since, and those are followed now");
  }
  told["found"] = markers.size();
  events_.raise(EventLog::Level::Info, "markers_found",
                fmt::format("{}, {} of them witnesses{}", counted(markers.size(), "marker"),
                            markers.size() - static_cast<std::size_t>(tracking),
                            spots_left_out_text(result.spots_left_out)),
                told);
  if (commanded) await_measurement(std::move(reply), now_ns);
}

/// Then there are no new markers.
bool MarkerKeeper::engaged_meanwhile() {
  if (may_find()) return false;
  end_find(CommandRefused{Refusal::Refused, "the lock was engaged meanwhile"});
  return true;
}

void MarkerKeeper::await_measurement(nlohmann::json reply, std::int64_t now_ns) {
  find_->stage = Find::Stage::Adopted;
  find_->reply = std::move(reply);
  find_->until_ns = now_ns + camera_.frame_limit_ns(loop_.report());
}

/// @param result  of the search that found them
/// @param references  that they have already, where they do; they are displaced from these
bool MarkerKeeper::adopt(const std::vector<control::Marker>& markers,
                         const MarkerSearchResult& result,
                         std::span<const control::MarkerReference> references,
                         control::Vec2 displacement_px) {
  LoopCommand command{.kind = LoopCommand::Kind::Markers};
  command.markers = make_marker_set(sized(result.size), markers);
  if (!references.empty()) {
    MarkerSet& set = *command.markers;
    set.estimator.set_references(references);
    set.axial.set_references(references, set.estimator);
    set.tracker.move_all(set.estimator.reference_px(), displacement_px);
  }
  command.markers->fitter = result.fitter ? result.fitter->fitter : fitter_.fitter;
  command.markers->roles_stay = result.chosen;
  const auto number = loop_.send(std::move(command));
  if (!number) return false;
  if (result.fitter) {
    fitter_before_ = fitter_.fitter;
    fitter_ = *result.fitter;
    spdlog::info("fits of {0} x {0} px by {1} ({2}) with {3}", fitter_.fitter->roi_px(),
                 fitter_.fitter->description(), fitter_.reason, name_of(fitter_.estimator));
  }
  if (result.size) tell_size(*result.size);
  size_ = result.size;
  if (result.clip.pixels > 0)
    learn_saturation(result.clip);
  else if (result.clip.level_adu > 0)
    saturation_adu_ = static_cast<int>(result.clip.level_adu);
  adopted_ = *number;
  has_markers_ = true;
  chosen_ = result.chosen;
  tracking_ = tracking_count(markers);
  told_none_found_ = false;
  return true;
}

void MarkerKeeper::tell_size(const control::SpotSize& size) {
  if (size_ && size_->sigma_px == size.sigma_px && size_->roi_px == size.roi_px) return;
  events_.raise(EventLog::Level::Info, "spot_size_chosen", size.reason,
                {{"spot_sigma_px", size.sigma_px}, {"roi_px", size.roi_px}});
}

config::Config MarkerKeeper::sized(const std::optional<control::SpotSize>& size) const {
  config::Config config = with_range(config_, camera_.info());
  config =
      size ? config::with_sizes(config, size->sigma_px, size->roi_px) : config::with_sizes(config);
  if (saturation_adu_ > 0) config.camera.saturation_adu = saturation_adu_;
  return config;
}

void MarkerKeeper::learn_saturation(const control::ClipLevel& clip) {
  saturation_adu_ = static_cast<int>(clip.level_adu);
  events_.raise(
      EventLog::Level::Warning, "saturation_found",
      fmt::format("{} pixels share a value at the image's top, {}: taken for saturated, as "
                  "camera.saturation_adu is 0. Markers with such pixels are not used",
                  clip.pixels, clip.level_adu),
      {{"saturation_adu", clip.level_adu}, {"pixels", clip.pixels}});
}

void MarkerKeeper::find(Answer answer, std::int64_t now_ns) {
  if (config_.markers.mode == config::MarkerMode::List && !chosen_) {
    throw CommandRefused{Refusal::Refused,
                         "markers.mode is `list`: those of markers.list are used, and no others "
                         "are looked for"};
  }
  begin_find(std::move(answer), now_ns);
}

/// @throws CommandRefused at once
void MarkerKeeper::begin_find(Answer answer, std::int64_t now_ns) {
  if (const auto lock = engaged_lock(loop_.report())) {
    throw CommandRefused{Refusal::Refused,
                         fmt::format("markers are looked for and chosen while {} is `idle` or "
                                     "`lost`, and it is `{}`: `{}` first",
                                     lock->name, lock->state, lock->unlock)};
  }
  if (exposure_changes_) throw CommandRefused{Refusal::Busy, "the camera's exposure is being set"};
  if (find_) throw CommandRefused{Refusal::Busy, "markers are being looked for already"};
  if (!camera_.connected()) throw CameraWatch::away();
  find_ = Find{.answer = std::move(answer),
               .until_ns = now_ns + camera_.frame_limit_ns(loop_.report())};
}

void MarkerKeeper::go_on_with_find(std::int64_t now_ns) {
  const bool late = now_ns > find_->until_ns;
  switch (find_->stage) {
    case Find::Stage::Asked:
      if (!camera_.connected()) return end_find(CameraWatch::away());
      if (stage_ == Stage::Search)  // for the markers known; its turn comes next
        find_->until_ns = now_ns + camera_.frame_limit_ns(loop_.report());
      else if (late)
        end_find(CommandRefused{Refusal::NoFrame, "no frame came in time"});
      return;
    case Find::Stage::Begun:
      return;  // the search is bounded
    case Find::Stage::Adopted:
      if (are_measured()) {
        find_->reply["markers"] = markers();
        find_->reply["chosen"] = chosen_;
        if (interrupted_ != nullptr && !find_->place) add_offer(find_->reply);
        end_find(Reply{.fields = find_->reply});
      } else if (late && !loop_.has_taken(adopted_)) {
        end_find(CommandRefused{Refusal::Timeout, "the tracking loop does not take the markers"});
      } else if (late) {
        end_find(CommandRefused{Refusal::NoFrame,
                                "the markers are in use, but no frame came to measure them",
                                find_->reply});
      }
  }
}

/// Whether the newest report is of the markers in use.
bool MarkerKeeper::are_measured() const noexcept {
  return loop_.markers().commands_taken >= adopted_;
}

/// There is a lock to go back to: whether it still can be is what who asked has to know.
void MarkerKeeper::add_offer(nlohmann::json& reply) const {
  if (const std::string offer = interrupted_->offer(); !offer.empty()) reply["offer"] = offer;
}

std::string MarkerKeeper::too_few() const {
  if (!has_markers_) return "no markers are known yet: `driftctl markers --find` tells why";
  // Those found or listed are enough.
  if (!chosen_ || tracking_ >= config_.drift.min_markers) return {};
  return fmt::format(
      "{} chosen, and a lock needs {} (drift.min_markers): choose more, or let driftd choose "
      "(`driftctl markers --find`)",
      counted(static_cast<std::size_t>(tracking_), "tracking marker is", "tracking markers are"),
      config_.drift.min_markers);
}

bool MarkerKeeper::may_find() const noexcept {
  return loop_.report().blocking_state() == nullptr;
}

/// Nothing where nobody asked.
void MarkerKeeper::end_find(const Outcome& outcome) {
  if (!find_) return;
  const Answer answer = std::move(find_->answer);
  find_.reset();
  answer(outcome);
}

nlohmann::json MarkerKeeper::listed() const {
  const LoopReport& loop = loop_.report();
  const std::int64_t arrival_ns = loop_.markers().arrival_ns;
  nlohmann::json reply = {{"markers", markers()}, {"chosen", chosen_}};
  if (arrival_ns > 0 && !loop.is_current(arrival_ns, loop.time_ns))
    reply["outdated_s"] = 1e-9 * static_cast<double>(loop.time_ns - arrival_ns);
  return reply;
}

nlohmann::json MarkerKeeper::markers() const {
  return markers_json(loop_.markers(), config_.optics.pixel_size_nm)["markers"];
}

}  // namespace driftd::daemon
