// SPDX-License-Identifier: MIT
// Localizations in the formats of ThunderSTORM and Picasso. docs/use/driftfit.md has their
// conventions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/driftfit/output_file.hpp"
#include "tools/driftfit/spot.hpp"
#include "tools/driftfit/yaml_files.hpp"

namespace driftd::tools {

/// CSV as ThunderSTORM 1.3 reads it: nanometres from the corner of the first pixel, frames from
/// 1, numbers without exponents; the elliptical model has sigma1 and sigma2 besides sigma, their
/// geometric mean. @throws OutputError
std::unique_ptr<SpotWriter> make_thunderstorm_writer(const OutputFile& output, const Units& units,
                                                     fitter::Model model);

/// HDF5 with the dataset /locs as Picasso's: pixels from the centre of the first one, frames from
/// 0; `group` is the marker. @throws OutputError
/// @param groups  whether there are markers
std::unique_ptr<SpotWriter> make_picasso_writer(const OutputFile& output, const Units& units,
                                                bool groups);

/// The description beside Picasso's localizations: the stack, then how it was fitted.
std::string picasso_description(const std::filesystem::path& stack, const camera::StackShape& shape,
                                const std::vector<YamlEntry>& settings);

}  // namespace driftd::tools
