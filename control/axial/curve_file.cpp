// SPDX-License-Identifier: MIT
#include "control/axial/curve_file.hpp"

#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/yaml/document.hpp"
#include "base/yaml/scalar.hpp"
#include "base/yaml/section.hpp"
#include "control/axial/picasso_curve.hpp"
#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

constexpr int kFormat = 1;
/// Pixel sizes that people type differ by less.
constexpr double kSamePixelShare = 0.01;
constexpr yaml::Range kZ = {-1e5, 1e5, "nm"};
constexpr yaml::Range kWidth = {.min = 0, .max = 100, .unit = "px", .above_min = true};

template <class Value>
using Name = std::pair<std::string_view, Value>;
constexpr std::array<Name<AxialMethod>, 2> kMethods{
    {{"astigmatic", AxialMethod::Astigmatic}, {"defocus", AxialMethod::Defocus}}};
constexpr std::array<Name<fitter::Model>, 2> kModels{
    {{"elliptical", fitter::Model::EllipticalGaussian},
     {"circular", fitter::Model::CircularGaussian}}};
constexpr std::array<Name<fitter::Estimator>, 3> kEstimators{
    {{"poisson", fitter::Estimator::PoissonLikelihood},
     {"least_squares", fitter::Estimator::LeastSquares},
     {"weighted", fitter::Estimator::WeightedLeastSquares}}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& entry : table)
    if (entry.second == value) return entry.first;
  return table.front().first;
}

template <class Table, class Value>
void read_choice(yaml::Section& section, const std::string& key, const Table& table, Value& value) {
  std::array<std::string_view, std::tuple_size_v<Table>> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = table[i].first;
  if (!section.has(key)) return section.reject(key, yaml::allowed_text(names), "nothing");
  std::string name;
  section.text(key, name, names);
  for (const auto& entry : table)
    if (entry.first == name) value = entry.second;
}

void read_needed(yaml::Section& section, const std::string& key, double& value,
                 const yaml::Range& range) {
  if (!section.has(key)) section.reject(key, yaml::allowed_number(range, false), "nothing");
  section.number(key, value, range);
}

/// The same minimum.
fitter::Estimator without_order(fitter::Estimator estimator) {
  return estimator == fitter::Estimator::ImplicitLeastSquares ? fitter::Estimator::LeastSquares
                                                              : estimator;
}

using Knots = std::vector<WidthCurve::Knot>;

/// What the keys of a file are read into.
struct Parts {
  AxialMethod method = AxialMethod::Astigmatic;
  double scatter_factor = 1;
  CurveFits fits;
  CurveNotes notes;
  WidthCurve::Range range;
  Knots knots;
  std::vector<Knots> dimmer;
};

/// z and both widths, and behind them what is known of scatter, dimness and excess.
void read_knot(yaml::Section& file, const YAML::Node& node, const std::string& path, Knots& knots) {
  constexpr std::size_t kFewest = 3, kMost = 6;
  const bool more = node.IsSequence() && node.size() > kFewest && node.size() <= kMost;
  const auto row = file.reader().numbers(path, node, more ? node.size() : kFewest, {-1e5, 1e5});
  if (!row) return;
  for (const std::size_t i : {1U, 2U}) {
    if (yaml::in_range((*row)[i], kWidth)) continue;
    file.reader().refuse(path, node, "widths above 0 up to 100 px, behind z");
    return;
  }
  WidthCurve::Knot knot{(*row)[0], (*row)[1], (*row)[2]};
  if (row->size() > 3) knot.scatter = (*row)[3];
  if (row->size() > 4) knot.dimness = (*row)[4];
  if (row->size() > 5) knot.excess = (*row)[5];
  knots.push_back(knot);
}

/// The same of a curve, with as much behind the widths as it knows.
std::string knots_text(const WidthCurve& curve, const std::string& indent) {
  std::string text;
  for (const WidthCurve::Knot& knot : curve.knots()) {
    text += indent + "- [" + number(knot.z_nm, 3) + ", " + number(knot.sigma_x_px, 6) + ", " +
            number(knot.sigma_y_px, 6);
    if (knot.scatter != curve.scatter_factor() || knot.dimness > 0) {
      text += ", " + number(knot.scatter, 3);
      if (knot.dimness > 0) text += ", " + number(knot.dimness, 7);
      if (knot.dimness > 0 && std::isfinite(knot.excess)) text += ", " + number(knot.excess, 8);
    }
    text += "]\n";
  }
  return text;
}

Parts read_parts(yaml::Section& file) {
  Parts parts;
  int format = 0;
  file.integer("axial_curve", format, {kFormat, kFormat});
  read_choice(file, "method", kMethods, parts.method);
  read_choice(file, "model", kModels, parts.fits.model);
  read_choice(file, "estimator", kEstimators, parts.fits.estimator);
  file.boolean("integrated", parts.fits.integrated);
  const yaml::Range sides = {fitter::kMinRoiPx, fitter::kMaxRoiPx, "px"};
  if (!file.has("roi_px")) file.reject("roi_px", yaml::allowed_number(sides, true), "nothing");
  file.integer("roi_px", parts.fits.roi_px, sides);
  read_needed(file, "pixel_size_nm", parts.fits.pixel_size_nm, {1, 10000, "nm"});
  file.number("gain_e_per_adu", parts.fits.gain_e_per_adu, {0, 1e6});
  read_needed(file, "scatter_factor", parts.scatter_factor, {0.1, 100});
  file.text("source", parts.notes.source);
  file.number("photons", parts.notes.photons, {0, 1e12});
  file.number("predicted_sd_nm", parts.notes.predicted_sd_nm, {0, 1e6, "nm"});
  if (const auto range = file.numbers("range_nm", 2, kZ)) {
    parts.range = {(*range)[0], (*range)[1]};
    if (!(parts.range.lower_nm < parts.range.upper_nm))
      file.reject("range_nm", "a list of two numbers, the lower one first");
  }
  if (!file.has("knots"))
    file.reject("knots", "a list of [z nm, sigma_x px, sigma_y px]", "nothing");
  file.each("knots", [&](const YAML::Node& node, const std::string& path) {
    read_knot(file, node, path, parts.knots);
  });
  file.each("dimmer", [&](const YAML::Node& node, const std::string& path) {
    if (!node.IsSequence()) return file.reader().refuse(path, node, "a list as `knots`");
    Knots& knots = parts.dimmer.emplace_back();
    for (std::size_t i = 0; i < node.size(); ++i)
      read_knot(file, node[i], path + "[" + std::to_string(i) + "]", knots);
  });
  file.finish();
  return parts;
}

/// Other keys are Picasso's own business, but no key is there twice.
PicassoCurve read_picasso(yaml::Section& file, const YAML::Node& document) {
  PicassoCurve picasso;
  std::set<std::string> seen;
  for (const auto& entry : document)
    if (entry.first.IsScalar() && !seen.insert(entry.first.Scalar()).second)
      file.reader().mistakes().add(yaml::place_of(entry.first), entry.first.Scalar(),
                                   "found twice; allowed once");
  for (const auto& [key, into] :
       {std::pair{"X Coefficients", &picasso.x}, std::pair{"Y Coefficients", &picasso.y}}) {
    if (!file.has(key)) file.reject(key, "a list of 7 numbers", "nothing");
    const auto read = file.numbers(key, PicassoCurve::kCoefficients, {-1e6, 1e6});
    if (read) std::copy(read->begin(), read->end(), into->begin());
  }
  for (const char* key : {"Number of frames", "Step size in nm"})
    if (!file.has(key)) file.reject(key, "a number", "nothing");
  for (const char* key : {"axial_curve", "knots"})
    if (file.has(key)) file.reject(key, "one curve in a file, driftfit's or Picasso's");
  file.integer("Number of frames", picasso.frames, {3, 100000});
  file.number("Step size in nm", picasso.step_nm, {-10000, 10000, "nm"});
  if (file.has("Step size in nm") && picasso.step_nm == 0)
    file.reject("Step size in nm", "a number from -10000 to 10000 nm, not 0");
  file.number("Magnification factor", picasso.magnification, {0.01, 100});
  return picasso;
}

[[noreturn]] void fail(const std::filesystem::path& path, const yaml::Mistakes& mistakes) {
  throw CurveFileError(mistakes.report(path.string()));
}

}  // namespace

CurveFile read_curve_file(const std::filesystem::path& path) {
  yaml::Mistakes mistakes;
  const auto text = yaml::read_file(path, mistakes);
  if (!text) fail(path, mistakes);
  const auto document = yaml::read_document(*text, mistakes);
  if (!document) fail(path, mistakes);
  yaml::Section file(*document, "", mistakes);
  const bool is_picasso = file.has("X Coefficients") || file.has("Y Coefficients");
  if (!is_picasso && !file.has("axial_curve"))
    throw CurveFileError(path.string() +
                         ": is no curve of widths: it has neither `axial_curve`, as driftfit "
                         "calibrate-z writes, nor `X Coefficients`, as Picasso does");
  try {
    if (is_picasso) {
      const PicassoCurve picasso = read_picasso(file, *document);
      if (!mistakes.empty()) fail(path, mistakes);
      return {.curve = curve_of(picasso), .fits = std::nullopt};
    }
    Parts parts = read_parts(file);
    if (!mistakes.empty()) fail(path, mistakes);
    CurveFile read{.curve = WidthCurve(std::move(parts.knots), parts.scatter_factor, parts.method,
                                       parts.range),
                   .fits = parts.fits,
                   .notes = parts.notes};
    for (Knots& knots : parts.dimmer)
      read.dimmer.emplace_back(std::move(knots), parts.scatter_factor, parts.method, parts.range);
    curves_of(read);  // that they are curves of one instrument
    return read;
  } catch (const WidthCurveError& error) {
    throw CurveFileError(path.string() + ": " + error.what());
  }
}

std::string curve_text(const CurveFile& file) {
  const WidthCurve& curve = file.curve;
  const CurveFits fits = file.fits.value_or(CurveFits{});
  std::string text =
      "# The widths of markers against z, by driftfit calibrate-z; docs/internals/axial.md.\n";
  const auto line = [&](const char* key, const std::string& value) {
    text.append(key).append(": ").append(value).append("\n");
  };
  line("axial_curve", std::to_string(kFormat));
  line("method", std::string(name_in(kMethods, curve.method())));
  line("model", std::string(name_in(kModels, fits.model)));
  line("estimator", std::string(name_in(kEstimators, without_order(fits.estimator))));
  line("integrated", fits.integrated ? "true" : "false");
  line("roi_px", std::to_string(fits.roi_px));
  line("pixel_size_nm", yaml::format_real(fits.pixel_size_nm));
  if (fits.gain_e_per_adu > 0) line("gain_e_per_adu", yaml::format_real(fits.gain_e_per_adu));
  line("scatter_factor", number(curve.scatter_factor(), 3));
  line("range_nm", "[" + number(curve.lower_nm(), 1) + ", " + number(curve.upper_nm(), 1) + "]");
  if (!file.notes.source.empty()) {
    std::string quoted = "'";
    for (const char letter : yaml::printable(file.notes.source))
      quoted += letter == '\'' ? "''" : std::string(1, letter);
    line("source", quoted + "'");
  }
  if (file.notes.photons > 0) line("photons", number(file.notes.photons, 0));
  if (file.notes.predicted_sd_nm > 0)
    line("predicted_sd_nm", number(file.notes.predicted_sd_nm, 2));
  text += "knots:  # z nm, sigma_x px, sigma_y px; where known, scatter, dimness, excess\n";
  text += knots_text(curve, "  ");
  if (!file.dimmer.empty()) text += "dimmer:  # the same of dimmer markers\n";
  for (const WidthCurve& dim : file.dimmer) text += "  -\n" + knots_text(dim, "    ");
  return text;
}

BrightnessCurves curves_of(const CurveFile& file) {
  std::vector<WidthCurve> curves{file.curve};
  curves.insert(curves.end(), file.dimmer.begin(), file.dimmer.end());
  return BrightnessCurves(std::move(curves));
}

std::string why_not_for(const CurveFits& curve, const CurveFits& fits) {
  std::string why;
  const auto add = [&](const std::string& what, const std::string& of_curve,
                       const std::string& of_fits) {
    if (of_curve == of_fits) return;
    why +=
        (why.empty() ? "" : "; ") + ("its " + what) + " is " + of_curve + ", the fits' " + of_fits;
  };
  add("model", std::string(name_in(kModels, curve.model)),
      std::string(name_in(kModels, fits.model)));
  add("estimator", std::string(name_in(kEstimators, without_order(curve.estimator))),
      std::string(name_in(kEstimators, without_order(fits.estimator))));
  add("Gaussian", curve.integrated ? "integrated over pixels" : "taken at the pixels' centres",
      fits.integrated ? "integrated over pixels" : "taken at the pixels' centres");
  add("ROI's side", std::to_string(curve.roi_px) + " px", std::to_string(fits.roi_px) + " px");
  if (std::abs(curve.pixel_size_nm - fits.pixel_size_nm) > kSamePixelShare * fits.pixel_size_nm)
    add("pixel size", number(curve.pixel_size_nm, 2) + " nm",
        number(fits.pixel_size_nm, 2) + " nm");
  return why;
}

}  // namespace driftd::control
