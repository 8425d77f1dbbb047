// SPDX-License-Identifier: MIT
// A TIFF recording, whole files. libtiff is not ours: what it takes for a picture, our reader has
// to bear.
#include "fuzz/recordings.hpp"

namespace driftd::fuzz {

void tiff(Bytes bytes) {
  static const FolderFile file("f.tif");
  file.hold(bytes);
  check_recording(file.path(), camera::StackFormat::Tiff);
}

}  // namespace driftd::fuzz
