// SPDX-License-Identifier: MIT
// Files of localizations, number by number, and that a run leaves all of its files or none.
#include <array>
#include <chrono>
#include <limits>

#include <CLI/CLI.hpp>

#include "support/catch.hpp"
#include "tools/driftfit/analysis.hpp"
#include "tools/driftfit/errors.hpp"
#include "tools/driftfit/localization_files.hpp"
#include "tools/driftfit/merge.hpp"
#include "tools/driftfit/results.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

constexpr Units kUnits{.pixel_nm = 100,
                       .roi_px = 7,
                       .noise = {.gain_e_per_adu = 2, .read_noise_e = 3, .offset_adu = 90}};

Spot example_spot() {
  Spot spot{.frame = 4, .marker = 2, .x_px = 10.25, .y_px = 20.5, .fit = {}, .net_gradient = 1234};
  spot.fit.sigma_x_px = 1.0f;
  spot.fit.sigma_y_px = 1.5f;
  spot.fit.amplitude_adu = 100;
  spot.fit.background_adu = 95;
  spot.fit.chi_square = 44;  // one for each of 49 - 5 degrees of freedom
  spot.fit.x_sd_px = 0.03f;
  spot.fit.y_sd_px = 0.04f;
  return spot;
}

TEST_CASE("photons are electrons under the Gaussian and above the offset") {
  const Photons photons = photons_of(example_spot().fit, kUnits);
  CHECK(photons.signal == Approx(2 * 3.14159265 * 1.0 * 1.5 * 100 * 2));
  CHECK(photons.background == Approx(10));
  CHECK(photons.background_sd == Approx(2));
  Units likelihood = kUnits;
  likelihood.estimator = fitter::Estimator::PoissonLikelihood;
  CHECK(photons_of(example_spot().fit, likelihood).background_sd == Approx(std::sqrt(10 + 9)));
}

TEST_CASE("ThunderSTORM counts from 1 and measures from the first pixel's corner") {
  const TemporaryFolder folder;
  const OutputFile output(folder / "t.csv");
  const auto writer = make_thunderstorm_writer(output, kUnits, fitter::Model::CircularGaussian);
  const std::array spots{example_spot(), example_spot()};
  writer->write(spots);
  writer->finish();
  const std::string text = read_file(output.temporary());
  CHECK_THAT(text, contains("id,frame,x [nm],y [nm],sigma [nm],intensity [photon],"
                            "offset [photon],bkgstd [photon],uncertainty_xy [nm]\n"
                            "1,5,1075.0000,2100.0000,100.0000,1884.96,10,2,3.53553\n"
                            "2,5,"));
}

TEST_CASE("ThunderSTORM's numbers have no exponent and six digits, however large or small") {
  struct Case {
    float amplitude_adu;
    const char* intensity;
  };
  for (const auto& [amplitude_adu, intensity] :
       {Case{1e6f, "18849556"}, Case{123456, "2327091"}, Case{-0.25f, "-4.71239"},
        Case{1e-6f, "0.0000188496"}, Case{1e-30f, "0.0000000000000000000000000000188496"},
        Case{0, "0"}, Case{std::numeric_limits<float>::infinity(), "NaN"},
        Case{std::numeric_limits<float>::quiet_NaN(), "NaN"}}) {
    CAPTURE(amplitude_adu);
    const TemporaryFolder folder;
    const OutputFile output(folder / "t.csv");
    const auto writer = make_thunderstorm_writer(output, kUnits, fitter::Model::CircularGaussian);
    std::array spots{example_spot()};
    spots[0].fit.amplitude_adu = amplitude_adu;
    writer->write(spots);
    writer->finish();
    CHECK_THAT(read_file(output.temporary()),
               contains("\n1,5,1075.0000,2100.0000,100.0000," + std::string(intensity) + ",10,2,"));
  }
}

TEST_CASE("the elliptical model has two columns of sigma, and their geometric mean") {
  const TemporaryFolder folder;
  const OutputFile output(folder / "t.csv");
  const auto writer = make_thunderstorm_writer(output, kUnits, fitter::Model::EllipticalGaussian);
  const std::array spots{example_spot()};
  writer->write(spots);
  writer->finish();
  CHECK_THAT(read_file(output.temporary()),
             contains(",y [nm],sigma [nm],sigma1 [nm],sigma2 [nm],intensity") &&
                 contains(",2100.0000,122.4745,100.0000,150.0000,1884.96,"));
}

struct PicassoRow {
  std::uint32_t frame;
  float x, photons, bg, ellipticity;
  std::int32_t group;
};

std::vector<PicassoRow> read_locs(const std::filesystem::path& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, "/locs", H5P_DEFAULT);
  const hid_t space = H5Dget_space(set);
  std::vector<PicassoRow> rows(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(PicassoRow));
  H5Tinsert(type, "frame", offsetof(PicassoRow, frame), H5T_NATIVE_UINT32);
  H5Tinsert(type, "x", offsetof(PicassoRow, x), H5T_NATIVE_FLOAT);
  H5Tinsert(type, "photons", offsetof(PicassoRow, photons), H5T_NATIVE_FLOAT);
  H5Tinsert(type, "bg", offsetof(PicassoRow, bg), H5T_NATIVE_FLOAT);
  H5Tinsert(type, "ellipticity", offsetof(PicassoRow, ellipticity), H5T_NATIVE_FLOAT);
  H5Tinsert(type, "group", offsetof(PicassoRow, group), H5T_NATIVE_INT32);
  H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data());
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  return rows;
}

TEST_CASE("Picasso counts from 0, in pixels, any number of rows") {
  for (const int count : {0, 1, 5000}) {
    CAPTURE(count);
    const TemporaryFolder folder;
    const OutputFile output(folder / "p.hdf5");
    const auto writer = make_picasso_writer(output, kUnits, true);
    for (int i = 0; i < count; ++i) {
      std::array spots{example_spot()};
      spots[0].frame = i;
      writer->write(spots);
    }
    writer->finish();
    const auto rows = read_locs(output.temporary());
    REQUIRE(rows.size() == static_cast<std::size_t>(count));
    if (count == 0) continue;
    CHECK(rows.back().frame == static_cast<std::uint32_t>(count - 1));
    CHECK(rows.back().x == 10.25f);
    CHECK(static_cast<double>(rows.back().photons) == Approx(1884.956));
    CHECK(rows.back().bg == 10);
    CHECK(static_cast<double>(rows.back().ellipticity) == Approx(1.0 / 3));
    CHECK(rows.back().group == 2);
  }
}

TEST_CASE("Picasso's description quotes what YAML would take for something else") {
  const camera::StackShape shape{.width_px = 64, .height_px = 48, .frames = 7};
  CHECK_THAT(picasso_description("/x/a: b.tif", shape, {{"Pixelsize", 108.5}}),
             contains("a: b.tif\"\n") && contains("Frames: 7\nHeight: 48\nWidth: 64\n") &&
                 contains("---\nPixelsize: 108.5\n"));
}

/// A stack of spots that stand still, in a folder, and options for all results beside it.
struct Run {
  TemporaryFolder folder;
  Options options;

  explicit Run(int frames = 4) {
    Scene scene;
    scene.spots = {{20, 20}, {44, 24}};
    std::vector<std::uint16_t> pixels;
    for (int i = 0; i < frames; ++i) {
      const auto frame = scene.frame(0, 0);
      pixels.insert(pixels.end(), frame.begin(), frame.end());
    }
    write_tiff(folder / "s.tif", pixels, scene.width_px, scene.height_px, {});
    options.stack.path = folder / "s.tif";
    options.quiet = true;
    OptionTexts texts;
    texts.prefix = (folder / "out").string();
    texts.stack = {options.stack.path};
    CLI::App app;
    add_options(app, options, texts);
    resolve(app, options, texts);
  }
  Outcome analyse() const {
    return tools::analyse(options, [] { return false; });
  }
};

TEST_CASE("a run leaves all results under their names and nothing else") {
  Run run;
  run.analyse();
  CHECK(run.folder.files() == 6);
  CHECK(read_locs(run.folder / "out_locs.hdf5").size() == 8);
  CHECK_THAT(read_file(run.folder / "out_locs.yaml"), contains("Fit method: implicit, circular"));
  CHECK_THROWS_WITH(run.analyse(), contains("exists already; --overwrite replaces it"));
  run.options.outputs.overwrite = true;
  run.analyse();
  CHECK(run.folder.files() == 6);
}

TEST_CASE("a run that fails leaves nothing and older results as they were") {
  Run run;
  run.options.outputs.overwrite = true;
  write_file(run.folder / "out_drift.txt", "older");
  SECTION("interrupted") {
    CHECK_THROWS_AS(tools::analyse(run.options, [] { return true; }), Interrupted);
  }
  SECTION("the stack breaks off") {
    write_tiff(run.options.stack.path, counting<std::uint16_t>(8, 9, 1), 8, 9, {.mode = "a"});
    CHECK_THROWS_AS(run.analyse(), camera::RecordingError);
  }
  SECTION("no marker in the reference frame") {
    run.options.min_markers = 2;
    write_file(run.folder / "p.csv", "x,y\n20,20\n10,40\n");
    run.options.find_markers = false;
    run.options.picks = run.folder / "p.csv";
    CHECK_THROWS_AS(run.analyse(), CoverageError);
    CHECK_THROWS_WITH(run.analyse(), contains("no drift in 4 of 4 frames: 0 to 3"));
    run.options.reference_frame = 1;
    CHECK_THROWS_WITH(run.analyse(), contains("fewer than 2 of 2 markers") &&
                                         contains("in the reference frame 1"));
    std::filesystem::remove(run.folder / "p.csv");
  }
  CHECK(run.folder.files() == 2);
  CHECK(read_file(run.folder / "out_drift.txt") == "older");
}

/// That stands still, as one shard.
struct RunOfShard : Run {
  RunOfShard() {
    OptionTexts texts;
    texts.prefix = (folder / "out").string();
    texts.stack = {options.stack.path};
    texts.shard = "1/1";
    options = {};
    options.quiet = true;
    CLI::App app;
    add_options(app, options, texts);
    options.every_spot = true;
    resolve(app, options, texts);
  }
};

TEST_CASE("a stack that changes while a shard reads it makes no shard") {
  const RunOfShard run;
  const std::vector<std::filesystem::path> files{run.options.stack.path};
  Results results(run.options, {.width_px = 64, .height_px = 64, .frames = 4}, files);
  SECTION("by its size") {
    write_file(run.options.stack.path, "longer or shorter");
  }
  SECTION("by its time alone") {
    const auto time = std::filesystem::last_write_time(run.options.stack.path);
    std::filesystem::last_write_time(run.options.stack.path, time + std::chrono::microseconds(1));
  }
  CHECK_THROWS_WITH(results.finish(nullptr, {.back_end = "CPU"}),
                    contains("s.tif: has changed while it was read"));
  CHECK_FALSE(std::filesystem::exists(run.folder / "out_shard-1-of-1_locs.yaml"));
}

TEST_CASE("a merge from which another one takes the shards ends as that one did") {
  const RunOfShard run;
  run.analyse();
  const MergeOptions options{.output = (run.folder / "out").string()};
  const int when = GENERATE(1, 2);  // before a shard is looked at, and before it is read
  int asked = 0;
  const auto stop = [&] {
    if (++asked == when) {
      // Beside this one it would be told that its results are being written.
      const TemporaryFolder beside;
      for (const char* end : {"_thunderstorm.csv", "_locs.hdf5", "_locs.yaml"}) {
        const std::string name = "out_shard-1-of-1" + std::string(end);
        std::filesystem::copy(run.folder / name, beside / name);
        std::filesystem::remove(run.folder / name);
      }
      merge_shards({.output = (beside / "out").string()}, [] { return false; });
      for (const char* name : {"out_thunderstorm.csv", "out_locs.hdf5", "out_locs.yaml"})
        std::filesystem::copy(beside / name, run.folder / name);
    }
    return false;
  };
  CHECK_THAT(merge_shards(options, stop), contains("no shards are left to merge: "));
  CHECK(asked == when);
  CHECK(run.folder.files() == 4);
}

TEST_CASE("results that cannot be written are refused before the work") {
  Run run;
  run.options.outputs.thunderstorm = run.folder / "none/t.csv";
  CHECK_THROWS_WITH(run.analyse(), contains("there is no folder"));
  run.options.outputs.thunderstorm = run.folder / "";
  CHECK_THROWS_AS(run.analyse(), OutputError);
  run.options.outputs.thunderstorm = run.options.outputs.drift;
  CHECK_THROWS_WITH(run.analyse(), contains("is named for two results"));
  const std::filesystem::path& drift = run.options.outputs.drift;
  run.options.outputs.thunderstorm = std::filesystem::proximate(drift);
  CHECK_THROWS_AS(run.analyse(), UsageError);
  run.options.outputs.overwrite = true;
  run.options.outputs.thunderstorm = run.options.stack.path;
  CHECK_THROWS_WITH(run.analyse(), contains("is an input"));
  run.options.outputs.thunderstorm.clear();
  CHECK(run.folder.files() == 1);
}

TEST_CASE("a description is an input where it describes plain pixels, else a result to replace") {
  Run run;
  run.options.outputs = {};
  run.options.outputs.picasso = run.folder / "s.hdf5";
  run.analyse();
  CHECK_THROWS_WITH(run.analyse(), contains("s.hdf5: exists already; --overwrite replaces it"));
  run.options.outputs.overwrite = true;
  run.analyse();
  CHECK_THAT(read_file(run.folder / "s.yaml"), contains("Generated by: driftfit"));

  std::filesystem::rename(run.folder / "s.tif", run.folder / "s.raw");
  run.options.stack.path = run.folder / "s.raw";
  write_file(run.folder / "s.yaml", "Width: 64\nHeight: 48\nData Type: uint16\n");
  run.options.stack.allow_truncated = true;
  CHECK_THROWS_WITH(run.analyse(), contains("s.yaml: is an input"));
}

TEST_CASE("a run that does not fit the stack says what would") {
  Run run;
  SECTION("frames") {
    run.options.last_frame = 4;
    CHECK_THROWS_WITH(run.analyse(),
                      contains("frames 0 to 4 are asked for") && contains("has 0 to 3"));
  }
  SECTION("first frame") {
    run.options.first_frame = 4;
    CHECK_THROWS_WITH(run.analyse(),
                      contains("--first-frame is 4; ") && contains("has frames 0 to 3"));
  }
  SECTION("reference") {
    run.options.first_frame = 2;
    run.options.reference_frame = 1;
    CHECK_THROWS_WITH(run.analyse(), contains("allowed are the frames used, 2 to 3"));
  }
  SECTION("ROI") {
    run.options.roi_px = 49;
    CHECK_THROWS_WITH(run.analyse(), contains("at most 48 is allowed"));
  }
  SECTION("markers") {
    run.options.detection.min_snr = 1e9;
    CHECK_THROWS_WITH(run.analyse(), contains("no marker was found in frame 0"));
  }
  SECTION("pick") {
    write_file(run.folder / "p.csv", "x,y\n64,20\n");
    run.options.find_markers = false;
    run.options.picks = run.folder / "p.csv";
    CHECK_THROWS_WITH(run.analyse(), contains("64, 20 is outside the frames of 64 x 48 px"));
  }
}

}  // namespace
}  // namespace driftd::tools
