// SPDX-License-Identifier: MIT
// The thread that looks for markers in a whole frame, one search at a time: it may take seconds on
// a large frame full of texture, and nobody waits for it. Values go in and come out. Owned by
// marker keeping, whose thread (housekeeping) makes all calls; what is under way ends soon after
// the destructor asked it to.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/search/clip_level.hpp"
#include "control/search/constellation.hpp"
#include "control/search/marker_detection.hpp"
#include "control/search/spot_size.hpp"
#include "daemon/loop/frame_copy.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/markers/marker_choice.hpp"
#include "daemon/markers/marker_finder.hpp"
#include "daemon/setup/fitter_choice.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

/// Makes a fitter for spots as they were found, with room for at least so many markers.
using FitterMaker =
    std::function<ChosenFitter(const control::DetectionSettings& found, std::size_t markers)>;

/// A search for earlier markers, of a lock that was interrupted or of a place: they go before any
/// others.
struct SearchForBefore {
  std::unique_ptr<const MarkersReport> markers;
  control::DetectionSettings detection;  ///< with the sizes that they had
  fitter::FitOptions options;
  control::ConstellationSettings constellation;
  bool no_others;  ///< where they are not there
  bool of_place;   ///< they are a place's, by command
};

struct MarkerSearch {
  std::unique_ptr<FrameImage> image;
  control::DetectionSettings detection;
  fitter::FitOptions options;
  /// The markers to be found again; none: any markers.
  std::unique_ptr<const MarkersReport> known;
  std::optional<SearchForBefore> before = std::nullopt;
  /// Spots at these places, and nothing else, to be followed beside so many markers.
  std::optional<std::vector<PointedPlace>> pointed = std::nullopt;
  std::size_t beside = 0;
  control::ConstellationSettings constellation;  ///< for those known
  /// For any markers: the spots' size is chosen from the image, where `detection` has it open.
  bool chooses_size = false;
  /// A level that the image shows to be cut off takes the place of detection.saturation_adu.
  bool finds_saturation = false;
  /// The fitter in use. Where side or saturation are to be others, and markers are enough, a new
  /// one is made.
  int fitter_roi_px = 0;
  std::uint32_t fitter_saturation_adu = 0;
  std::size_t fitter_capacity = 0;
  int min_markers = 1;
  FitterMaker make_fitter = nullptr;
};

struct MarkerSearchResult {
  bool again = false;     ///< those known were looked for: `match` says; otherwise `found`
  bool before = false;    ///< those of before were looked for: `match` says ...
                          ///< ... and `found`, where they are not there
  bool of_place = false;  ///< these were a place's
  std::optional<control::SpotSize> size;  ///< where it was to be chosen
  control::ClipLevel clip;                ///< of the image, below what counted as saturated
  std::optional<ChosenFitter> fitter;     ///< for these, where it has to be another
  control::DetectionResult found;
  std::vector<control::Vec2> pointed_px;  ///< the spots pointed at, sensor pixels
  std::string no_spot;                    ///< why one of these is none; "": all are
  control::ConstellationMatch match;
  std::size_t spots_left_out = 0;  ///< beyond the bounds of a search; the faintest
  bool chosen = false;             ///< somebody chose these markers by command
  std::string failure;             ///< not empty: the search broke off for this
};

class SearchWorker {
 public:
  SearchWorker();
  SearchWorker(const SearchWorker&) = delete;
  SearchWorker& operator=(const SearchWorker&) = delete;

  /// False, with nothing begun, while another search is under way or its result was not taken.
  bool begin(MarkerSearch search);
  /// The result, once.
  std::optional<MarkerSearchResult> take();
  bool busy() const noexcept { return busy_; }

 private:
  void run(const std::stop_token& stop);

  bool busy_ = false;  // housekeeping's: from begin() to take()
  std::mutex mutex_;   // for what follows
  std::condition_variable_any changed_;
  std::optional<MarkerSearch> search_;
  std::optional<MarkerSearchResult> result_;
  std::jthread thread_;  // last: it uses what is above, and ends first
};

}  // namespace driftd::daemon
