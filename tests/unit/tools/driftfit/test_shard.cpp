// SPDX-License-Identifier: MIT
// Which frames are a shard's, what its description says, and the script for Slurm.
#include <sys/wait.h>

#include <cstdio>

#include "support/catch.hpp"
#include "tools/driftfit/shard.hpp"
#include "tools/driftfit/slurm_script.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

TEST_CASE("shards have all frames once, in order, and as many as the others but for one") {
  for (const std::int64_t frames : {1LL, 2LL, 7LL, 100LL, 999'983LL, 1LL << 40}) {
    for (const std::int64_t count : {1LL, 2LL, 3LL, 7LL, 10'000LL}) {
      CAPTURE(frames, count);
      std::int64_t next = 0, least = frames, most = 0;
      for (std::int64_t i = 1; i <= count; ++i) {
        const ShardFrames range = frames_of({i, count}, frames);
        REQUIRE(range.first == next);
        least = std::min(least, range.end - range.first);
        most = std::max(most, range.end - range.first);
        next = range.end;
      }
      CHECK(next == frames);
      CHECK(most - least <= 1);
      CHECK(least >= 0);
    }
  }
}

TEST_CASE("a shard is named by two numbers alone, the first from 1 to the second") {
  CHECK(shard_named("3/7")->index == 3);
  CHECK(shard_named("3/7")->count == 7);
  CHECK(shard_prefix("a/out", {3, 7}) == "a/out_shard-3-of-7");
  CHECK(shard_prefix("out", {3, 100}) == "out_shard-003-of-100");
  for (const char* wrong : {"", "3", "3/", "/7", "0/7", "8/7", "-1/7", "+1/7", "1/7 ", "1 /7",
                            "1/2/3", "1/10001", "99999999999999999999/1"})
    CHECK_FALSE(shard_named(wrong));
}

constexpr const char* kDescription =
    "---\nFile: /a b\nFrames: 40\n---\nBox Size: 9\nFirst Frame: 10\nLast Frame: 19\n"
    "---\nShard: 2/4\nLocalizations: 5\nTable Bytes: 3\nLocs Bytes: 2\n";

TEST_CASE("what is merged is described without the shard, with all frames") {
  CHECK(merged_description(kDescription, 40) ==
        "---\nFile: /a b\nFrames: 40\n---\nBox Size: 9\nFirst Frame: 0\nLast Frame: 39\n");
}

TEST_CASE("descriptions differ in what results depend on, not in a shard's own frames and sizes") {
  const Description one(kDescription);
  CHECK(one.differences(Description(merged_description(kDescription, 40))).empty());
  const Description other(
      "---\nFile: /c\nFrames: 40\n---\nFirst Frame: 0\nLast Frame: 19\nSaturation: 3\n");
  CHECK(in_words(one.differences(other), "here", "there") ==
        "File is /a b here and /c there; Box Size is 9 here and not said there; Saturation is not "
        "said here and 3 there");
}

TEST_CASE("a shard is whole when its files have the bytes that its description says") {
  const TemporaryFolder folder;
  const ResultNames names = results_of((folder / "s").string());
  CHECK_THAT(why_not_whole(Description(kDescription), names),
             contains("s_thunderstorm.csv is missing"));
  write_file(names.table, "123456789");
  write_file(names.locs, "12");
  const Description written(shard_document({2, 4}, 5, names.table, names.locs));
  CHECK(why_not_whole(written, names).empty());
  write_file(names.locs, "123");
  CHECK_THAT(why_not_whole(written, names), contains("s_locs.hdf5 has 3 bytes, written were 2"));
  for (const char* other : {"12345678:", "023456789", "213456789"}) {
    write_file(names.table, other);
    CHECK_THAT(why_not_whole(written, names),
               contains("s_thunderstorm.csv has other bytes than were written, though as many"));
  }
  CHECK_THAT(why_not_whole(Description("---\nFrames: 3\n"), names),
             contains("does not say which shard it is of"));
}

/// What a command of the shell's prints.
std::string said_by(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  CHECK(pclose(pipe) == 0);
  return said;
}

TEST_CASE("the script hands two jobs to sbatch, with every word as it was given") {
  const TemporaryFolder folder;
  // In sbatch's place: its arguments, and the job's script run with its arguments shown.
  write_file(
      folder / "sbatch",
      "#!/bin/sh\nprintf '<%s>' \"$@\" >&2\nSLURM_ARRAY_TASK_ID=4 sh 1>&2\necho '17;cluster'\n");
  write_file(folder / "drift fit", "#!/bin/sh\nprintf '[%s]' \"$@\"; echo\n");
  for (const char* name : {"sbatch", "drift fit"})
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
  const SlurmOptions options{.shards = 9,
                             .sbatch = {"--partition=a b"},
                             .arguments = {"it's a $HOME.tif", "--every-spot", "-o", "50% o"}};
  write_file(folder / "script",
             slurm_script(options, (folder / "drift fit").string(), "/data", "50% o", true, 3));
  const std::string said = said_by("PATH=" + (folder / "").string() + ":$PATH sh '" +
                                   (folder / "script").string() + "' 2>&1");
  CHECK_THAT(said, contains("<--array=1-9><--cpus-per-task=3>") && contains("<--chdir=/data>") &&
                       contains("<--requeue>") && contains("<--output=50%% o_slurm-%a.log>") &&
                       contains("<--partition=a b>"));
  CHECK_THAT(
      said, contains("[it's a $HOME.tif][--every-spot][-o][50% o][--no-progress][--shard][4/9]\n"));
  CHECK_THAT(said, contains("<--dependency=afterany:17>") &&
                       contains("[merge][--overwrite][-o][50% o]\n"));
  CHECK_THAT(said,
             contains("shards: job 17, 9 of them; merge: job 17, begins when all have ended\n"));
}

}  // namespace
}  // namespace driftd::tools
