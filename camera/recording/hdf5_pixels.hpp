// SPDX-License-Identifier: MIT
// What an HDF5 dataset says of its pixels that changes what they are worth.
#pragma once

#include <string>
#include <vector>

#include "camera/recording/hdf5_dataset.hpp"

namespace driftd::camera {

/// Sentences for people: filters that lose, and a scale that the pixels are to be multiplied by.
std::vector<std::string> notes_on_pixels(const Hdf5Dataset& opened);

}  // namespace driftd::camera
