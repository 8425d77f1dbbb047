// SPDX-License-Identifier: MIT
// `driftfit slurm`: writes the script that hands the shards of a stack to Slurm as an array job,
// and the merge as a job that begins when all of them have ended, well or not, and judges. Pure,
// but for the script's file. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace driftd::tools {

struct SlurmOptions {
  std::int64_t shards = 0;
  std::vector<std::string> sbatch;     ///< options for sbatch, of both jobs
  std::vector<std::string> arguments;  ///< of driftfit, but for --shard
};

/// @param program  driftfit's path on the nodes
/// @param folder   where relative names begin
/// @param output, overwrite, threads  of the arguments; 0: threads are not told
std::string slurm_script(const SlurmOptions& options, const std::string& program,
                         const std::string& folder, const std::string& output, bool overwrite,
                         int threads);

/// Writes OUT_slurm.sh after the arguments were checked as each shard will.
/// @returns what to do with it, in lines
/// @throws CLI::ParseError, UsageError, OutputError
std::string write_slurm_script(const SlurmOptions& options);

}  // namespace driftd::tools
