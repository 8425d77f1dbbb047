// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "clients/driftfit/errors.hpp"
#include "clients/driftfit/options.hpp"
#include "clients/driftfit/spot_fitter.hpp"
#include "support/catch.hpp"

namespace driftd::clients {
namespace {

/// The options of a command line without the program's name. @throws CLI::ParseError, UsageError
Options parsed(const std::string& line) {
  Options options;
  OptionTexts texts;
  CLI::App app;
  add_options(app, options, texts);
  app.parse(line, false);
  resolve(options, texts);
  return options;
}

TEST_CASE("without more, markers are found and followed by the fastest fit") {
  const Options o = parsed("s.tif -o out");
  CHECK(o.find_markers);
  CHECK(o.roi_px == 13);
  CHECK(o.fitter.cold_start == ColdStart::Peak);
  CHECK(o.fitter.options.estimator == fitter::Estimator::ImplicitLeastSquares);
  CHECK(o.outputs.thunderstorm == "out_thunderstorm.csv");
  CHECK(o.outputs.picasso == "out_locs.hdf5");
  CHECK(o.outputs.drift == "out_drift.txt");
  CHECK(o.outputs.drift_csv == "out_drift.csv");
}

TEST_CASE("every spot is fitted in a smaller square and gives no drift") {
  const Options o = parsed("s.tif --every-spot -o out --picasso p.hdf5");
  CHECK(o.roi_px == 9);
  CHECK_FALSE(o.find_markers);
  CHECK(o.fitter.large_batches);
  CHECK(o.outputs.picasso == "p.hdf5");
  CHECK(o.outputs.drift.empty());
  CHECK_THROWS_AS(parsed("s.tif --every-spot --drift d.txt"), UsageError);
  CHECK_THROWS_AS(parsed("s.tif --every-spot -o out --reference 3"), UsageError);
}

TEST_CASE("names stand for the fitter's models, estimators and back ends") {
  const Options o = parsed(
      "--devices 1,3 s.raw --width 4 --height 5 --type f32 --byte-order big --model elliptical "
      "--estimator "
      "poisson --search swarm --backend cuda --gain 2.5 --offset 100 --read-noise 1.5 --drift d");
  CHECK(o.stack.type == fitter::PixelType::F32);
  CHECK(o.stack.byte_order == ByteOrder::Big);
  CHECK(o.fitter.options.model == fitter::Model::EllipticalGaussian);
  CHECK(o.fitter.options.estimator == fitter::Estimator::PoissonLikelihood);
  CHECK(o.fitter.options.noise.gain_e_per_adu == 2.5f);
  CHECK(o.fitter.back_end == BackEnd::Cuda);
  CHECK(o.fitter.cold_start == ColdStart::Swarm);
  CHECK(o.fitter.devices == std::vector<int>{1, 3});
  CHECK(estimator_name(fitter::Estimator::WeightedLeastSquares) == "weighted");
  CHECK(model_name(fitter::Model::EllipticalGaussian) == "elliptical");
}

TEST_CASE("what makes no sense is refused") {
  for (const char* line :
       {"", "s.tif --estimator best -o o", "s.tif --search all -o o", "s.tif --roi 3 -o o",
        "s.tif --roi x -o o", "s.tif --pixel-nm 0 -o o", "s.tif --gain -1 -o o",
        "s.tif --picks p --every-spot -o o", "s.tif --picks p --find-markers -o o",
        "s.tif --threads 0 -o o", "s.tif --nonsense", "s.tif --first-frame -1 -o o",
        "s.tif --type int32 -o o", "a.tif b.tif -o o"}) {
    CAPTURE(line);
    CHECK_THROWS_AS(parsed(line), CLI::ParseError);
  }
  CHECK_THROWS_WITH(parsed("s.tif -o o --pixel-nm nan"), contains("--pixel-nm is not a finite"));
  CHECK_THROWS_WITH(parsed("s.tif -o o --min-snr nan"), contains("--min-snr is not a finite"));
  CHECK_THROWS_WITH(parsed("s.tif"), contains("no result is asked for"));
  CHECK_THROWS_WITH(parsed("s.tif --picasso p.yaml"), contains("names the HDF5 file"));
}

TEST_CASE("settings that the fitting library refuses are refused before any fit") {
  SpotFitterSettings settings;
  settings.options.max_iterations = 0;
  CHECK_THROWS_AS(SpotFitter(settings), fitter::FitterError);
  settings = {};
  settings.back_end = BackEnd::Cuda;
  settings.devices = {1000};
  CHECK_THROWS_AS(SpotFitter(settings), fitter::FitterError);
}

}  // namespace
}  // namespace driftd::clients
