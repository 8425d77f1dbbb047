// SPDX-License-Identifier: MIT
// Pixels of a dataset that stand elsewhere: in the sources of a virtual dataset, in files outside
// of HDF5, behind links. HDF5 reads its fill value where they are not there. Used by one thread.
#pragma once

#include <string>

#include "camera/recording/hdf5_dataset.hpp"

namespace driftd::camera {

/// "/q of other.h5": where a link of that name leads; "": it is none.
std::string target_of_link(hid_t group, const std::string& name);
/// Opens a dataset again whose external files are beside it, and not where HDF5 looks for them.
void find_external_files(Hdf5Dataset& opened);
/// What of the pixels stands in other files that are not there, or too short, and what to do; "":
/// nothing.
std::string missing_sources(const Hdf5Dataset& opened);
/// How many pixels of a virtual dataset come from no source, in words; "": none.
std::string pixels_without_source(const Hdf5Dataset& opened);

}  // namespace driftd::camera
