// SPDX-License-Identifier: MIT
// A build without CUDA.
#include "fitter/cuda_fitter.hpp"
#include "support/catch.hpp"

namespace driftd {
namespace {

TEST_CASE("A build without CUDA has no device and says so") {
  CHECK(fitter::cuda_device_count() == 0);
  CHECK_THROWS_WITH(fitter::make_cuda_live_fitter(9, 4, {}), contains("no CUDA back end"));
  CHECK_THROWS_WITH(fitter::make_cuda_batch_fitter(), contains("no CUDA back end"));
}

}  // namespace
}  // namespace driftd
