// SPDX-License-Identifier: MIT
#include "tools/driftfit/options.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/process/option_range.hpp"
#include "fitter/instruction_sets.hpp"
#include "tools/driftfit/axial_reader.hpp"
#include "tools/driftfit/errors.hpp"

namespace driftd::tools {
namespace {

template <class Value>
using Name = std::pair<std::string_view, Value>;

constexpr std::array<Name<fitter::Model>, 2> kModels{
    {{"circular", fitter::Model::CircularGaussian},
     {"elliptical", fitter::Model::EllipticalGaussian}}};
constexpr std::array<Name<fitter::Estimator>, 4> kEstimators{
    {{"implicit", fitter::Estimator::ImplicitLeastSquares},
     {"least-squares", fitter::Estimator::LeastSquares},
     {"weighted", fitter::Estimator::WeightedLeastSquares},
     {"poisson", fitter::Estimator::PoissonLikelihood}}};
constexpr std::array<Name<BackEnd>, 3> kBackEnds{
    {{"auto", BackEnd::Auto}, {"cpu", BackEnd::Cpu}, {"cuda", BackEnd::Cuda}}};
constexpr std::array<Name<ColdStart>, 2> kColdStarts{
    {{"peak", ColdStart::Peak}, {"swarm", ColdStart::Swarm}}};
constexpr std::array<Name<camera::ByteOrder>, 2> kByteOrders{
    {{"little", camera::ByteOrder::Little}, {"big", camera::ByteOrder::Big}}};

constexpr int kEverySpotRoiPx = 9;

/// Single precision holds every number from the least to the most.
constexpr double kLeast = 1e-38;
constexpr double kMost = 1e38;
CLI::Validator positive() {
  return in_range(kLeast, kMost, "POSITIVE");
}
CLI::Validator not_empty() {
  return {[](const std::string& text) { return text.empty() ? "is empty, allowed is a file" : ""; },
          ""};
}
CLI::Validator pixel_type() {
  return {[](const std::string& text) {
            return camera::plain_type_named(text)
                       ? ""
                       : "is '" + text +
                             "', allowed are uint8, uint16, int16, float32, u8, u16, i16, f32";
          },
          "TYPE"};
}
CLI::Validator shard_number() {
  return {[](const std::string& text) {
            return shard_named(text) ? ""
                                     : "is '" + text + "', allowed are 1/N to N/N, N up to " +
                                           std::to_string(kMostShards);
          },
          "I/N"};
}
CLI::Validator frame_number() {
  return in_range(0, 0x1p40, "NONNEGATIVE");
}

template <class Table>
CLI::IsMember one_of(const Table& table) {
  std::vector<std::string> names;
  names.reserve(table.size());
  for (const auto& entry : table) names.emplace_back(entry.first);
  return CLI::IsMember(names);
}

template <class Table>
auto find_value(const Table& table, const std::string& name) {
  for (const auto& entry : table) {
    if (entry.first == name) return entry.second;
  }
  throw UsageError("'" + name + "' is no known name");
}

template <class Table, class Value>
std::string name_in(const Table& table, Value value) {
  for (const auto& entry : table) {
    if (entry.second == value) return std::string(entry.first);
  }
  return "?";
}

void add_shard_option(CLI::App& app, OptionTexts& texts) {
  app.add_option("--shard", texts.shard,
                 "I/N: the I-th (from 1) of N parts of the frames, for --every-spot, with files of "
                 "its own, OUT_shard-I-of-N_...; not done again where they are there. `driftfit "
                 "merge` joins them")
      ->check(shard_number())
      ->group("Stack");
}

void add_spot_options(CLI::App& app, Options& o) {
  const char* group = "Spots (default: --find-markers)";
  CLI::Option* picks = app.add_option("--picks", o.picks,
                                      "Follow the markers picked in FILE: Picasso's YAML, or CSV "
                                      "with columns x and y in pixels")
                           ->group(group);
  CLI::Option* find =
      app.add_flag("--find-markers", o.find_markers,
                   "Follow the markers found in the first frame, or where it has none in the next "
                   "that has")
          ->group(group)
          ->excludes(picks);
  app.add_flag("--every-spot", o.every_spot,
               "Find and fit spots in each frame by itself (localization microscopy); no drift")
      ->group(group)
      ->excludes(picks)
      ->excludes(find);
  app.add_option("--max-markers", o.detection.max_count, "--find-markers: at most so many")
      ->check(CLI::Range(1, 256))
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-snr", o.detection.min_snr,
                 "--find-markers: least amplitude over background noise")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  app.add_option("--spot-sigma", o.detection.expected_sigma_px,
                 "--find-markers: expected sigma of a spot, px (default: chosen from the image)")
      ->check(in_range(0.4, 32, "FLOAT in [0.4 - 32]"))
      ->group(group);
  app.add_option("--max-residual-ratio", o.detection.max_residual_ratio,
                 "--find-markers: largest residuals over expected noise")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--min-net-gradient", o.min_net_gradient,
         "--every-spot: least net gradient, adu, with a gain map electrons (default: 8 times "
         "what noise makes)")
      ->check(positive())
      ->group(group);
}

void add_fit_options(CLI::App& app, Options& o, OptionTexts& texts) {
  const char* group = "Fit";
  fitter::FitOptions& fit = o.fitter.options;
  app.add_option(
         "--roi", o.roi_px,
         "Side of the square fitted, px (default: chosen from the first image; --every-spot: "
         "9)")
      ->check(CLI::Range(fitter::kMinRoiPx, fitter::kMaxRoiPx))
      ->group(group);
  app.add_option("--model", texts.model, "Shape of a spot")
      ->check(one_of(kModels))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--integrated", fit.integrated,
               "A pixel is the Gaussian's mean over its area, instead of its value at the centre: "
               "sigma is then the spot's own")
      ->group(group);
  app.add_option("--estimator", texts.estimator,
                 "What is minimized: implicit and least-squares squares, weighted squares over "
                 "the noise model's variances, poisson the deviance")
      ->check(one_of(kEstimators))
      ->capture_default_str()
      ->group(group);
  app.add_option("--search", texts.cold_start,
                 "Where a fit without a start value starts: from its peak, or where a particle "
                 "swarm was best (slower)")
      ->check(one_of(kColdStarts))
      ->capture_default_str()
      ->group(group);
  app.add_option("--gain", fit.noise.gain_e_per_adu,
                 "Electrons per count (default: not known; photons are then counts)")
      ->check(positive())
      ->group(group);
  app.add_option("--offset", fit.noise.offset_adu, "The camera's dark level, counts")
      ->check(in_range(-kMost, kMost, ""))
      ->capture_default_str()
      ->group(group);
  app.add_option("--read-noise", fit.noise.read_noise_e, "Electrons rms")
      ->check(in_range(0, kMost, "NONNEGATIVE"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--excess-noise", o.fitter.excess_noise,
                 "Variance of the signal over that of its photons, by a camera's multiplication: 2 "
                 "for an EMCCD; --gain and --read-noise are then before the multiplication")
      ->check(in_range(1, 16, "FLOAT in [1 - 16]"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--gain-map", o.maps.gain,
                 "TIFF of the frames' size: electrons per count of each pixel, in place of --gain")
      ->check(not_empty())
      ->group(group);
  app.add_option("--offset-map", o.maps.offset,
                 "TIFF: dark level of each pixel, counts, in place of --offset")
      ->check(not_empty())
      ->group(group);
  app.add_option("--variance-map", o.maps.variance,
                 "TIFF: variance of each pixel's read noise, counts squared, in place of "
                 "--read-noise; infinite: a pixel that is gone. For --estimator poisson and "
                 "weighted; pixels much noisier than most are not taken for spots")
      ->check(not_empty())
      ->group(group);
  app.add_option("--map-origin", o.maps.origin_px,
                 "X,Y: column and row of larger maps where the frames begin, from 0")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(in_range(0, 1 << 24, "NONNEGATIVE"))
      ->group(group);
  app.add_option("--axial-curve", o.axial_curve,
                 "Read z of markers by this curve of widths, which calibrate-z or Picasso made. "
                 "Model, estimator, ROI and pixel size are the curve's")
      ->check(not_empty())
      ->group(group);
  app.add_option("--saturation", fit.saturation_adu,
                 "A spot with a pixel at or above is not fitted (default: no limit)")
      ->check(positive())
      ->group(group);
  app.add_option("--backend", texts.back_end,
                 "auto: a GPU for --every-spot where there is one, else the CPU")
      ->check(one_of(kBackEnds))
      ->capture_default_str()
      ->group(group);
  app.add_option("--threads", o.fitter.threads, "CPU threads (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->group(group);
  app.add_option("--instruction-set", o.instruction_set,
                 "Of the CPU, for results that are the same to the bit on different processors "
                 "(default: the best that this one has)")
      ->check(CLI::IsMember({"auto", "avx512", "avx2", "sse4", "baseline"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--devices", o.fitter.devices, "CUDA devices, e.g. 0,1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(in_range(0, 1023, "NONNEGATIVE"))
      ->capture_default_str()
      ->group(group);
}

void add_output_options(CLI::App& app, Options& o, OptionTexts& texts) {
  const char* group = "Results (at least one)";
  app.add_option("-o,--output", texts.prefix,
                 "All results, as PREFIX_thunderstorm.csv, PREFIX_locs.hdf5, PREFIX_locs.yaml, "
                 "PREFIX_drift.txt, PREFIX_drift.csv")
      ->group(group);
  app.add_option("--thunderstorm", o.outputs.thunderstorm, "Localizations as ThunderSTORM's CSV")
      ->group(group);
  app.add_option("--picasso", o.outputs.picasso,
                 "Localizations as Picasso's HDF5, with a .yaml of the same name beside it")
      ->group(group);
  app.add_option("--drift", o.outputs.drift, "Drift as Picasso's text, px")->group(group);
  app.add_option("--drift-csv", o.outputs.drift_csv, "Drift as CSV, px and nm")->group(group);
  app.add_option("--pixel-nm", o.pixel_nm, "Side of a pixel in the sample, nm")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  app.add_option("--reference", o.reference_frame,
                 "Frame whose drift is 0 (default: the first that has one)")
      ->check(frame_number())
      ->group(group);
  app.add_option("--min-markers", o.min_markers,
                 "Fewest markers that make a drift (all, where fewer are followed)")
      ->check(in_range(1, 1e6, "POSITIVE"))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--min-drift-share", o.min_drift_share,
         "Where a smaller share of the frames has a drift, nothing is written (exit code 5)")
      ->check(in_range(0, 1, "FLOAT in [0 - 1]"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--warn-drift-share", o.warn_drift_share,
                 "Where a smaller share of the frames has a drift, there is a warning")
      ->check(in_range(0, 1, "FLOAT in [0 - 1]"))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--overwrite", o.outputs.overwrite, "Replace results that are there already")
      ->group(group);
}

void fill_outputs(Options& o, const std::string& prefix) {
  Outputs& out = o.outputs;
  if (!prefix.empty()) {
    if (out.thunderstorm.empty()) out.thunderstorm = prefix + "_thunderstorm.csv";
    if (out.picasso.empty()) out.picasso = prefix + "_locs.hdf5";
    if (!o.every_spot && out.drift.empty()) out.drift = prefix + "_drift.txt";
    if (!o.every_spot && out.drift_csv.empty()) out.drift_csv = prefix + "_drift.csv";
  }
  const bool drift = !out.drift.empty() || !out.drift_csv.empty();
  if (o.every_spot && drift) throw UsageError("--every-spot gives no drift: follow markers for it");
  if (!drift && out.thunderstorm.empty() && out.picasso.empty()) {
    throw UsageError(
        "no result is asked for: --output PREFIX, or some of --thunderstorm, --picasso, --drift, "
        "--drift-csv");
  }
  if (!out.picasso.empty() && out.picasso.extension() == ".yaml") {
    throw UsageError("--picasso names the HDF5 file; its .yaml is written beside it");
  }
}

/// @throws UsageError for an option that was given and would change nothing
void check_effects(const CLI::App& app, const Options& o) {
  struct Rule {
    bool without_effect;
    const char* why;
    std::initializer_list<const char*> options;
  };
  const bool drift = !o.outputs.drift.empty() || !o.outputs.drift_csv.empty();
  const bool picked = !o.picks.empty();
  const bool gpu = o.fitter.back_end == BackEnd::Cuda ||
                   (o.fitter.back_end == BackEnd::Auto &&
                    (o.every_spot || o.fitter.cold_start == ColdStart::Swarm));
  for (const Rule& rule :
       {Rule{o.every_spot,
             "is for markers that are followed; --every-spot follows none",
             {"--max-markers", "--min-snr", "--spot-sigma", "--max-residual-ratio", "--min-markers",
              "--min-drift-share", "--warn-drift-share", "--reference", "--axial-curve"}},
        Rule{!o.every_spot, "is for --every-spot", {"--min-net-gradient"}},
        Rule{picked,
             "is for markers that are found; --picks names them",
             {"--min-snr", "--max-residual-ratio"}},
        Rule{picked && o.roi_px > 0,
             "is for markers that are found, or to choose a ROI; --picks and --roi name both",
             {"--max-markers", "--spot-sigma"}},
        Rule{!drift,
             "is for the drift, which is not asked for: --output, --drift or --drift-csv does",
             {"--min-markers", "--min-drift-share", "--warn-drift-share", "--reference"}},
        Rule{!(o.fitter.options.noise.gain_e_per_adu > 0) && o.maps.gain.empty(),
             "is in electrons: --gain says how many a count is",
             {"--read-noise", "--excess-noise"}},
        Rule{!o.maps.gain.empty(), "is for all pixels; --gain-map has each one's", {"--gain"}},
        Rule{
            !o.maps.offset.empty(), "is for all pixels; --offset-map has each one's", {"--offset"}},
        Rule{!o.maps.variance.empty(),
             "is for all pixels; --variance-map has each one's",
             {"--read-noise"}},
        Rule{o.fitter.options.estimator != fitter::Estimator::PoissonLikelihood &&
                 o.fitter.options.estimator != fitter::Estimator::WeightedLeastSquares,
             "is for --estimator poisson or weighted, which know the noise of each pixel",
             {"--variance-map"}},
        Rule{!o.maps.any(),
             "is for maps: --gain-map, --offset-map or --variance-map names one",
             {"--map-origin"}},
        Rule{o.fitter.back_end == BackEnd::Cuda,
             "is the CPU's, which fits nothing with --backend cuda",
             {"--instruction-set"}},
        Rule{!gpu,
             "is for a GPU, which is not used: --backend cuda uses it, and without --backend cpu "
             "--every-spot and --search swarm do",
             {"--devices"}}}) {
    if (!rule.without_effect) continue;
    for (const char* option : rule.options) {
      if (app.count(option) > 0) throw UsageError(std::string(option) + " " + rule.why);
    }
  }
}

/// Which instruction set a processor has is known here alone. @throws UsageError
void check_instruction_set(const std::string& name) {
  std::string there;
  for (const std::string& set : fitter::cpu_instruction_sets()) {
    if (name == set) return;
    there += (there.empty() ? "" : ", ") + set;
  }
  if (name == "auto") return;
  throw UsageError("--instruction-set is " + name +
                   "; this processor, by what this driftfit has kernels for, has " + there);
}

/// A shard's files have names of their own. @throws UsageError
std::string prefix_of(const CLI::App& app, const Options& o, const OptionTexts& texts) {
  if (!o.shard.is_part()) return texts.prefix;
  if (!o.every_spot) {
    throw UsageError(
        "--shard is for --every-spot: markers are followed from frame to frame, so that their "
        "frames stay together, and one core follows some thousands a second");
  }
  if (texts.prefix.empty()) {
    throw UsageError("--shard needs --output OUT, which names its files and is what merge is told");
  }
  for (const char* option : {"--first-frame", "--last-frame"}) {
    if (app.count(option) > 0)
      throw UsageError(std::string(option) + " and --shard both say which frames: one is allowed");
  }
  for (const char* option : {"--thunderstorm", "--picasso"}) {
    if (app.count(option) > 0)
      throw UsageError(std::string(option) +
                       " names one file; with --shard each has its own, by --output");
  }
  if (o.fitter.cold_start == ColdStart::Swarm) {
    throw UsageError(
        "--search swarm draws by the number of a spot in the run, so that shards would not give "
        "what one run gives; --shard allows --search peak");
  }
  return shard_prefix(texts.prefix, o.shard);
}

}  // namespace

std::string estimator_name(fitter::Estimator estimator) {
  return name_in(kEstimators, estimator);
}

std::string model_name(fitter::Model model) {
  return name_in(kModels, model);
}

void add_stack_options(CLI::App& app, Options& o, OptionTexts& texts) {
  const char* group = "Stack";
  app.add_option("stack", texts.stack,
                 "TIFF, HDF5, or plain pixels (.raw, .bin); several files, or a folder of TIFFs, "
                 "are one movie, in the order of the numbers in their names, or as given");
  app.add_option(
         "--dataset", o.stack.dataset,
         "HDF5: path of the dataset (frames, rows, columns); needed where there are several")
      ->group(group);
  app.add_option(
         "--series", o.stack.series,
         "TIFF: which Image of OME-XML, or position, from 0; needed where there are several")
      ->check(CLI::Range(0, 1 << 30))
      ->group(group);
  app.add_option("--channel", o.stack.channel,
                 "TIFF: which channel by its metadata, from 0; needed where there are several")
      ->check(CLI::Range(0, 1 << 30))
      ->group(group);
  app.add_option(
         "--slice", o.stack.slice,
         "TIFF: which position in z by its metadata, from 0; needed where there are several at "
         "each time. With one time alone the positions are the frames")
      ->check(CLI::Range(0, 1 << 30))
      ->group(group);
  app.add_flag("--every-page", o.stack.every_page,
               "TIFF: each page is a frame, whatever its metadata say")
      ->group(group);
  app.add_flag("--allow-truncated", o.stack.allow_truncated,
               "Use the whole frames at the beginning of a truncated stack")
      ->group(group);
  app.add_option("--width", o.stack.width_px,
                 "Plain pixels: columns (default: Width in STACK.yaml)")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--height", o.stack.height_px, "Plain pixels: rows (default: Height)")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--type", texts.type,
                 "Plain pixels: their type, uint8, uint16, int16 or float32, or u8, u16, i16, f32 "
                 "(default: Data Type)")
      ->check(pixel_type())
      ->group(group);
  app.add_option("--byte-order", texts.byte_order,
                 "Plain pixels: little or big (default: Byte Order, else little)")
      ->check(one_of(kByteOrders))
      ->group(group);
  app.add_option("--first-frame", o.first_frame, "First frame to use, from 0")
      ->check(frame_number())
      ->group(group);
  app.add_option("--last-frame", o.last_frame, "Last frame to use (default: the last there is)")
      ->check(frame_number())
      ->group(group);
}

void add_options(CLI::App& app, Options& options, OptionTexts& texts) {
  add_stack_options(app, options, texts);
  add_shard_option(app, texts);
  add_spot_options(app, options);
  add_fit_options(app, options, texts);
  add_output_options(app, options, texts);
  app.add_flag("--progress,!--no-progress", options.show_progress,
               "A progress bar (default: where stderr is a terminal)");
  app.add_flag("-q,--quiet", options.quiet, "No summary");
}

void resolve_stack(Options& o, const OptionTexts& texts) {
  if (texts.stack.empty()) throw CLI::RequiredError("stack");
  o.stack.path = texts.stack.front();
  o.stack.more.assign(texts.stack.begin() + 1, texts.stack.end());
  if (const auto type = camera::plain_type_named(texts.type)) {
    o.stack.type = type->type;
    o.stack.has_sign = type->has_sign;
  }
  if (!texts.byte_order.empty()) o.stack.byte_order = find_value(kByteOrders, texts.byte_order);
}

void resolve(const CLI::App& app, Options& o, const OptionTexts& texts) {
  o.pixel_told = app.count("--pixel-nm") > 0;
  resolve_stack(o, texts);
  o.fitter.options.model = find_value(kModels, texts.model);
  o.fitter.options.estimator = find_value(kEstimators, texts.estimator);
  if (!o.every_spot) fit_as_curve(app, o);
  o.fitter.back_end = find_value(kBackEnds, texts.back_end);
  o.fitter.cold_start = find_value(kColdStarts, texts.cold_start);
  o.fitter.large_batches = o.every_spot;
  if (o.roi_px == 0 && o.every_spot) o.roi_px = kEverySpotRoiPx;
  o.detection.roi_px = o.roi_px;
  o.find_markers = o.picks.empty() && !o.every_spot;
  o.shard = shard_named(texts.shard).value_or(Shard{});
  o.merged = texts.prefix;
  fill_outputs(o, prefix_of(app, o, texts));
  const std::size_t numbers = o.maps.origin_px.size();
  if (numbers != 0 && numbers != 2) {
    throw UsageError("--map-origin: given numbers are " + std::to_string(numbers) +
                     ", allowed are two, X,Y: 512,0");
  }
  check_effects(app, o);
  check_instruction_set(o.instruction_set);
}

}  // namespace driftd::tools
