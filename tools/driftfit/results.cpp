// SPDX-License-Identifier: MIT
#include "tools/driftfit/results.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <system_error>

#include "base/replaceable.hpp"
#include "base/yaml/scalar.hpp"
#include "camera/recording/micromanager.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/few_digits.hpp"

namespace driftd::tools {
namespace {

Units units_of(const Options& options) {
  return {.pixel_nm = options.pixel_nm,
          .roi_px = options.roi_px,
          .estimator = options.fitter.options.estimator,
          .noise = options.fitter.options.noise,
          .excess_noise = options.fitter.excess_noise,
          .has_z = options.curve != nullptr};
}

/// What is read, or describes it.
/// @param files  that the recording is read from
std::vector<std::filesystem::path> inputs_of(const Options& options,
                                             const std::vector<std::filesystem::path>& files) {
  const CameraMapFiles& maps = options.maps;
  std::vector<std::filesystem::path> inputs{options.picks, maps.gain, maps.offset, maps.variance,
                                            options.axial_curve};
  std::vector<std::filesystem::path> named = options.stack.more;
  named.push_back(options.stack.path);
  camera::StackSettings settings = options.stack;
  for (std::filesystem::path file : named) {
    inputs.push_back(file);
    settings.path = file;
    std::error_code error;
    const bool described = std::filesystem::is_regular_file(file, error) &&
                           format_of(settings) == camera::StackFormat::PlainPixels;
    if (described) inputs.push_back(file.replace_extension(".yaml"));
  }
  for (const std::filesystem::path& file : files) {
    inputs.push_back(file);
    inputs.push_back(file.parent_path() / camera::kNdTiffIndex);
  }
  std::erase(inputs, std::filesystem::path());
  return inputs;
}

/// Bytes of a file, here and there, `samples` times: files of one size and second are told apart by
/// the noise of their pixels.
template <class Stamp>
void stamp_samples(const std::filesystem::path& file, std::int64_t bytes, std::int64_t samples,
                   const Stamp& stamp) {
  constexpr std::int64_t kSample = 4096;
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;  // whoever reads the stack says so
  std::array<char, kSample> sample;
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t from =
        std::max<std::int64_t>(0, bytes - kSample) * (2 * i + 1) / (2 * samples);
    const ssize_t read = pread(descriptor, sample.data(), sample.size(), from);
    for (ssize_t k = 0; k < read; ++k) stamp(sample[static_cast<std::size_t>(k)]);
  }
  close(descriptor);
}

/// In the order in which the files are read, which makes the movie.
InputFacts facts_of(const std::vector<std::filesystem::path>& inputs) {
  constexpr std::int64_t kSamples = 64;
  const std::int64_t samples = std::max<std::int64_t>(
      1, kSamples / static_cast<std::int64_t>(std::max<std::size_t>(1, inputs.size())));
  std::set<std::filesystem::path> seen;
  InputFacts facts;
  const auto stamp_byte = [&](char byte) {  // FNV-1a
    facts.stamp = (facts.stamp ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  };
  const auto stamp = [&](std::int64_t value) {
    for (int i = 0; i < 64; i += 8)
      stamp_byte(static_cast<char>(static_cast<std::uint64_t>(value) >> i & 0xff));
  };
  for (const std::filesystem::path& input : inputs) {
    struct stat file = {};
    if (!seen.insert(input).second || stat(input.c_str(), &file) != 0 || !S_ISREG(file.st_mode))
      continue;
    facts.bytes += file.st_size;
    for (const char letter : input.filename().string()) stamp(letter);
    stamp(file.st_size);
    stamp(file.st_mtim.tv_sec);
    stamp_samples(input, file.st_size, samples, stamp_byte);
    facts.last_change_ns =
        std::max(facts.last_change_ns, file.st_mtim.tv_sec * 1'000'000'000L + file.st_mtim.tv_nsec);
  }
  return facts;
}

/// What was said of which frames of a file are meant, and how it is read.
void add_stack_settings(std::vector<YamlEntry>& entries, const camera::StackSettings& stack) {
  if (!stack.dataset.empty()) entries.emplace_back("Dataset", yaml::printable(stack.dataset));
  if (stack.series >= 0) entries.emplace_back("Series", std::int64_t{stack.series});
  if (stack.channel >= 0) entries.emplace_back("Channel", std::int64_t{stack.channel});
  if (stack.slice >= 0) entries.emplace_back("Slice", std::int64_t{stack.slice});
  if (stack.every_page) entries.emplace_back("Every Page", std::string("yes"));
  if (stack.has_sign) entries.emplace_back("Signed", std::string("yes"));
  if (stack.byte_order)
    entries.emplace_back(
        "Byte Order", std::string(*stack.byte_order == camera::ByteOrder::Big ? "big" : "little"));
}

/// By which curve z was read, by Picasso's name for it, and of how many fits it was not.
void add_heights(std::vector<YamlEntry>& entries, const std::filesystem::path& curve,
                 const HeightCounts& counts) {
  entries.emplace_back("Z Calibration Path", yaml::printable(curve.string()));
  const std::array<std::pair<const char*, HeightReading>, 5> keys{
      {{"Z Read", HeightReading::Read},
       {"Z Out Of Range", HeightReading::OutOfRange},
       {"Z Unclear", HeightReading::Unclear},
       {"Z Too Dim", HeightReading::TooDim},
       {"Z Implausible", HeightReading::Company}}};
  for (const auto& [key, reading] : keys)
    entries.emplace_back(key, counts[static_cast<std::size_t>(reading)]);
}

}  // namespace

std::vector<YamlEntry> settings_of(const Options& options, const RunFacts& facts,
                                   const InputFacts& inputs) {
  const fitter::FitOptions& fit = options.fitter.options;
  std::vector<YamlEntry> entries{
      {"Generated by", std::string("driftfit ") + DRIFTD_VERSION},
      {"Box Size", std::int64_t{options.roi_px}},
      {"Pixelsize", options.pixel_nm},
      {"Fit method", estimator_name(fit.estimator) + ", " + model_name(fit.model) +
                         (fit.integrated ? ", integrated" : "")}};
  if (options.fitter.cold_start == ColdStart::Swarm) {
    entries.emplace_back("Start values", "particle swarm");
  }
  if (fit.noise.gain_e_per_adu > 0) {
    entries.emplace_back("Sensitivity", in_few_digits(fit.noise.gain_e_per_adu));
  }
  entries.emplace_back("Baseline", in_few_digits(fit.noise.offset_adu));
  entries.emplace_back("Read Noise", in_few_digits(fit.noise.read_noise_e));
  if (options.fitter.excess_noise > 1) {
    entries.emplace_back("Excess Noise", in_few_digits(options.fitter.excess_noise));
  }
  const CameraMapFiles& maps = options.maps;
  if (!maps.gain.empty()) entries.emplace_back("Gain Map", maps.gain.string());
  if (!maps.offset.empty()) entries.emplace_back("Offset Map", maps.offset.string());
  if (!maps.variance.empty()) entries.emplace_back("Variance Map", maps.variance.string());
  if (!maps.origin_px.empty())
    entries.emplace_back(
        "Map Origin", std::to_string(maps.origin_px[0]) + "," + std::to_string(maps.origin_px[1]));
  if (options.every_spot && options.min_net_gradient > 0) {
    entries.emplace_back("Min. Net Gradient", options.min_net_gradient);
  }
  if (std::isfinite(options.recorded_saturation_adu))
    entries.emplace_back("Saturation", in_few_digits(options.recorded_saturation_adu));
  add_stack_settings(entries, options.stack);
  entries.emplace_back("Input Bytes", inputs.bytes);
  entries.emplace_back("Input Stamp", fmt::format("0x{:016x}", inputs.stamp));
  entries.emplace_back("First Frame", facts.first_frame);
  entries.emplace_back("Last Frame", facts.last_frame);
  entries.emplace_back("Back End", facts.back_end);
  if (!facts.instruction_set.empty())
    entries.emplace_back("Instruction Set", facts.instruction_set);
  if (facts.heights) add_heights(entries, options.axial_curve, *facts.heights);
  return entries;
}

Results::Results(const Options& options, const camera::StackShape& shape,
                 const std::vector<std::filesystem::path>& files)
    : options_(options),
      shape_(shape),
      inputs_(inputs_of(options, files)),
      input_facts_(facts_of(inputs_)) {
  const Outputs& out = options.outputs;
  table_ = add(out.thunderstorm);
  locs_ = add(out.picasso);
  if (locs_ != nullptr) {
    description_ = add(std::filesystem::path(out.picasso).replace_extension(".yaml"));
  }
  drift_ = add(out.drift);
  drift_csv_ = add(out.drift_csv);
  const Units units = units_of(options);
  if (table_ != nullptr) {
    writers_.push_back(make_thunderstorm_writer(*table_, units, options.fitter.options.model));
  }
  if (locs_ != nullptr) {
    writers_.push_back(make_picasso_writer(*locs_, units, !options.every_spot));
  }
}

OutputFile* Results::add(const std::filesystem::path& path) {
  if (path.empty()) return nullptr;
  std::error_code error;
  if (const std::string why = why_not_replaced(path, inputs_); !why.empty())
    throw OutputError(path, why);
  if (!options_.outputs.overwrite && std::filesystem::exists(path, error)) {
    throw OutputError(path, "exists already; --overwrite replaces it");
  }
  for (const auto& file : files_) {
    if (is_same_place(file->path(), path))
      throw UsageError(path.string() + " is named for two results");
  }
  files_.push_back(std::make_unique<OutputFile>(path));
  return files_.back().get();
}

void Results::write(std::span<const Spot> spots) {
  written_ += static_cast<std::int64_t>(spots.size());
  for (const auto& writer : writers_) writer->write(spots);
}

std::string Results::description(const RunFacts& facts) const {
  return picasso_description(options_.stack.path, shape_,
                             settings_of(options_, facts, input_facts_));
}

void Results::check_unchanged() const {
  if (!options_.shard.is_part()) return;
  const InputFacts now = facts_of(inputs_);
  if (now == input_facts_) return;
  throw InputError(options_.stack.path,
                   fmt::format("has changed while it was read ({} bytes before, {} now, with what "
                               "belongs to it): nothing was written. Run driftfit again when "
                               "nothing writes it any more, with the shards made before, too",
                               input_facts_.bytes, now.bytes));
}

void Results::finish(const DriftTrace* trace, const RunFacts& facts) {
  for (const auto& writer : writers_) writer->finish();
  check_unchanged();
  if (description_ != nullptr) {
    TextFile file(*description_);
    file.write(description(facts));
    if (options_.shard.is_part())
      file.write(shard_document(options_.shard, written_, table_->temporary(), locs_->temporary()));
    file.finish();
  }
  if (trace != nullptr && drift_ != nullptr) write_picasso_drift(*drift_, *trace);
  if (trace != nullptr && drift_csv_ != nullptr) write_drift_csv(*drift_csv_, *trace);
  keep_all(files_, description_);
}

std::string Results::names() const {
  std::string names;
  for (const auto& file : files_) names += (names.empty() ? "" : ", ") + file->path().string();
  return names;
}

}  // namespace driftd::tools
