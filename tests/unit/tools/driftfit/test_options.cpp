// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>

#include "support/catch.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/options.hpp"
#include "tools/driftfit/spot_fitter.hpp"

namespace driftd::tools {
namespace {

/// The options of a command line without the program's name. @throws CLI::ParseError, UsageError
Options parsed(const std::string& line) {
  Options options;
  OptionTexts texts;
  CLI::App app;
  add_options(app, options, texts);
  app.parse(line, false);
  resolve(app, options, texts);
  return options;
}

TEST_CASE("without more, markers are found and followed by the fastest fit") {
  const Options o = parsed("s.tif -o out");
  CHECK(o.find_markers);
  CHECK(o.roi_px == 0);  // from the image
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
      "--estimator poisson --search swarm --backend cuda --gain 2.5 --offset 100 --read-noise 1.5 "
      "--drift d");
  CHECK(o.stack.type == camera::PixelType::F32);
  CHECK(o.stack.byte_order == camera::ByteOrder::Big);
  CHECK(o.fitter.options.model == fitter::Model::EllipticalGaussian);
  CHECK(o.fitter.options.estimator == fitter::Estimator::PoissonLikelihood);
  CHECK(o.fitter.options.noise.gain_e_per_adu == 2.5f);
  CHECK(o.fitter.back_end == BackEnd::Cuda);
  CHECK(o.fitter.cold_start == ColdStart::Swarm);
  CHECK(o.fitter.devices == std::vector<int>{1, 3});
  CHECK(estimator_name(fitter::Estimator::WeightedLeastSquares) == "weighted");
  CHECK(model_name(fitter::Model::EllipticalGaussian) == "elliptical");
}

TEST_CASE("what of a stack is used is chosen by options") {
  const Options o =
      parsed("s.tif -o o --series 2 --channel 0 --slice 7 --allow-truncated --every-page");
  CHECK(o.stack.series == 2);
  CHECK(o.stack.channel == 0);
  CHECK(o.stack.slice == 7);
  CHECK(o.stack.allow_truncated);
  CHECK(o.stack.every_page);
  const Options none = parsed("s.tif -o o");
  CHECK(none.stack.series == -1);
  CHECK(none.stack.channel == -1);
  CHECK(none.stack.slice == -1);
  CHECK_FALSE(none.stack.allow_truncated);
  CHECK_FALSE(none.stack.every_page);
  CHECK_THROWS_AS(parsed("s.tif -o o --channel -1"), CLI::ParseError);
}

TEST_CASE("several files are one movie, and types have numpy's names, too") {
  const Options o = parsed("a.tif b.tif c.tif -o o --devices 0 --backend cuda");
  CHECK(o.stack.path == "a.tif");
  CHECK(o.stack.more == std::vector<std::filesystem::path>{"b.tif", "c.tif"});
  CHECK(parsed("s.tif -o o").stack.more.empty());
  for (const char* type : {"uint16", "u16"}) {
    CHECK(parsed(std::string("s.raw -o o --type ") + type).stack.type == camera::PixelType::U16);
  }
  CHECK(parsed("s.raw -o o --type float32").stack.type == camera::PixelType::F32);
  CHECK(parsed("s.raw -o o --type uint8").stack.type == camera::PixelType::U8);
  CHECK_FALSE(parsed("s.raw -o o --type u16").stack.has_sign);
  CHECK(parsed("s.raw -o o --type int16").stack.has_sign);
}

TEST_CASE("maps of a camera are files, and where in them the frames begin") {
  const Options o = parsed(
      "-o o --gain-map g.tif --offset-map b.tif --variance-map v.tif --estimator poisson "
      "--excess-noise 1.5 --map-origin 20,7 s.tif");
  CHECK(o.stack.path == "s.tif");
  CHECK(o.maps.gain == "g.tif");
  CHECK(o.maps.offset == "b.tif");
  CHECK(o.maps.variance == "v.tif");
  CHECK(o.maps.origin_px == std::vector<int>{20, 7});
  CHECK(o.fitter.excess_noise == 1.5f);
  const Options none = parsed("s.tif -o o");
  CHECK_FALSE(none.maps.any());
  CHECK(none.fitter.excess_noise == 1);
  for (const char* wrong : {"--map-origin 3", "--map-origin 1,2,3"})
    CHECK_THROWS_WITH(parsed(std::string("s.tif -o o --gain-map g ") + wrong),
                      contains("allowed are two, X,Y"));
  for (const char* wrong : {"--map-origin -1,0", "--map-origin x,0", "--excess-noise 0.9",
                            "--excess-noise 17", "--offset-map=", "--variance-map="}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parsed(std::string("s.tif -o o --gain-map g ") + wrong), CLI::ParseError);
  }
}

TEST_CASE("pixels are integrated on request") {
  CHECK(parsed("s.tif -o o --integrated").fitter.options.integrated);
  CHECK_FALSE(parsed("s.tif -o o").fitter.options.integrated);
}

TEST_CASE("what makes no sense is refused") {
  for (const char* line :
       {"", "s.tif --estimator best -o o", "s.tif --search all -o o", "s.tif --roi 3 -o o",
        "s.tif --roi x -o o", "s.tif --pixel-nm 0 -o o", "s.tif --gain -1 -o o",
        "s.tif --picks p --every-spot -o o", "s.tif --picks p --find-markers -o o",
        "s.tif --threads 0 -o o", "s.tif --nonsense", "s.tif --first-frame -1 -o o",
        "s.tif --type int32 -o o"}) {
    CAPTURE(line);
    CHECK_THROWS_AS(parsed(line), CLI::ParseError);
  }
  CHECK_THROWS_WITH(parsed("s.tif"), contains("no result is asked for"));
  CHECK_THROWS_WITH(parsed("s.tif --picasso p.yaml"), contains("names the HDF5 file"));
}

TEST_CASE("an option without effect is refused, with what it is for") {
  struct Case {
    const char* option;
    std::vector<const char*> has_none;  ///< with these
    std::vector<const char*> has;
  };
  for (const Case& one : std::vector<Case>{
           {"--max-markers 3",
            {"-o o --every-spot", "-o o --picks p --roi 9"},
            {"-o o", "-o o --picks p", "-o o --roi 9"}},
           {"--min-snr 3", {"-o o --every-spot", "-o o --picks p"}, {"-o o"}},
           {"--max-residual-ratio 3", {"-o o --every-spot", "-o o --picks p"}, {"-o o"}},
           {"--spot-sigma 2",
            {"-o o --every-spot", "-o o --picks p --roi 9"},
            {"-o o", "-o o --picks p", "-o o --roi 9"}},
           {"--min-net-gradient 9", {"-o o", "-o o --picks p"}, {"-o o --every-spot"}},
           {"--min-markers 2",
            {"-o o --every-spot", "--thunderstorm t", "--picks p --picasso q"},
            {"-o o", "--drift d", "--drift-csv d --picks p"}},
           {"--min-drift-share 0.2", {"-o o --every-spot", "--thunderstorm t"}, {"--drift d"}},
           {"--warn-drift-share 0.2", {"-o o --every-spot", "--picasso t"}, {"--drift d"}},
           {"--reference 0", {"-o o --every-spot", "--picasso t"}, {"--drift d"}},
           {"--read-noise 1",
            {"-o o", "-o o --every-spot --offset 100",
             "-o o --gain 2 --variance-map v --estimator poisson"},
            {"-o o --gain 2", "-o o --gain-map g"}},
           {"--excess-noise 2", {"-o o"}, {"-o o --gain 2", "-o o --gain-map g"}},
           {"--gain 2", {"-o o --gain-map g"}, {"-o o --offset-map b"}},
           {"--offset 100", {"-o o --offset-map b"}, {"-o o --gain-map g"}},
           {"--variance-map v",
            {"-o o", "-o o --estimator least-squares"},
            {"-o o --estimator weighted", "-o o --estimator poisson --picks p"}},
           {"--map-origin 3,4", {"-o o"}, {"-o o --gain-map g", "-o o --offset-map b"}},
           {"--devices 0",
            {"-o o", "-o o --every-spot --backend cpu"},
            {"-o o --every-spot", "-o o --search swarm", "-o o --backend cuda"}}}) {
    const std::string option = one.option;
    const std::string name = option.substr(0, option.find(' '));
    for (const std::string more : one.has_none) {
      CAPTURE(option, more);
      CHECK_THROWS_WITH(parsed("s.tif " + more + " " + option), contains(name + " is "));
      CHECK_THROWS_AS(parsed("s.tif " + more + " " + option), UsageError);
    }
    for (const std::string more : one.has) {
      CAPTURE(option, more);
      CHECK_NOTHROW(parsed("s.tif " + more + " " + option));
    }
  }
}

TEST_CASE("numbers have a range, which infinity and what is no number are outside of") {
  const std::string positive = " is not in the range 1e-38 to 1e+38";
  const std::string not_negative = " is not in the range 0 to 1e+38";
  for (const char* value : {"nan", "inf", "-inf", "-1", "1e39", "1e300", "x"}) {
    CAPTURE(value);
    for (const char* option : {"--gain", "--saturation", "--pixel-nm", "--min-snr",
                               "--max-residual-ratio", "--min-net-gradient"}) {
      const std::string name = option;
      CHECK_THROWS_WITH(parsed("s.tif -o o " + name + "=" + value), name + ": " + value + positive);
    }
    CHECK_THROWS_WITH(parsed(std::string("s.tif -o o --read-noise=") + value),
                      std::string("--read-noise: ") + value + not_negative);
    CHECK_THROWS_WITH(parsed(std::string("s.tif -o o --spot-sigma=") + value),
                      contains(" is not in the range 0.4 to 32"));
    if (value == std::string("-1")) continue;
    CHECK_THROWS_WITH(parsed(std::string("s.tif -o o --offset=") + value),
                      std::string("--offset: ") + value + " is not in the range -1e+38 to 1e+38");
  }
  CHECK_THROWS_WITH(parsed("s.tif -o o --gain 0"), contains("--gain: 0" + positive));
  CHECK_THROWS_WITH(parsed("s.tif -o o --gain 1e-60"), contains("--gain: 1e-60" + positive));
  CHECK_THROWS_WITH(parsed("s.tif -o o --min-markers 0"), contains("0 is not in the range 1 to"));
  CHECK_THROWS_WITH(parsed("s.tif -o o --last-frame -1"),
                    contains("-1 is not in the range 0 to 1099511627776"));
  const Options o = parsed("s.tif -o o --offset -100.5 --read-noise 0 --gain 1e-38 --reference 0");
  CHECK(o.fitter.options.noise.offset_adu == -100.5f);
  CHECK(o.fitter.options.noise.read_noise_e == 0.0f);
  CHECK(o.fitter.options.noise.gain_e_per_adu == 1e-38f);
  CHECK(o.reference_frame == 0);
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
}  // namespace driftd::tools
