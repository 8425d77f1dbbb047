// SPDX-License-Identifier: MIT
// What programs say of the dimensions of a dataset: labels (DIMENSION_LABELS, h5py's
// dims[0].label), the names of HDF5's dimension scales (by netCDF and xarray),
// vigra's and ilastik's "axistags". Used by one thread.
#pragma once

#include "camera/recording/hdf5_dataset.hpp"

namespace driftd::camera {

/// Notes along what the frames are, where a label says that it is not time.
/// @throws RecordingError where labels say that the last two dimensions are not rows and columns
void check_labels(Hdf5Dataset& opened);

}  // namespace driftd::camera
