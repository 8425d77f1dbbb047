// SPDX-License-Identifier: MIT
#include "base/process/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace driftd {
namespace {

/// As C wants a list of texts; `texts` outlive it.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

int spawn(const Spawn& child, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (child.input < 0)
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  else
    posix_spawn_file_actions_adddup2(&actions, child.input, STDIN_FILENO);
  if (child.output >= 0) posix_spawn_file_actions_adddup2(&actions, child.output, STDOUT_FILENO);
  if (child.errors >= 0) posix_spawn_file_actions_adddup2(&actions, child.errors, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  if (!child.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, child.folder.c_str());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  const sched_param ordinary{};
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setschedpolicy(&attributes, SCHED_OTHER);
  posix_spawnattr_setschedparam(&attributes, &ordinary);
  constexpr int kFlags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSCHEDULER |
                         POSIX_SPAWN_SETSID;
  posix_spawnattr_setflags(&attributes, static_cast<short>(kFlags));
  std::vector<std::string> arguments = child.arguments;
  std::vector<std::string> environment = child.environment.value_or(std::vector<std::string>{});
  std::vector<char*> variables = pointers(environment);
  const int error =
      posix_spawnp(&pid, arguments.front().c_str(), &actions, &attributes,
                   pointers(arguments).data(), child.environment ? variables.data() : environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool has_ended(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == pid;
}

std::optional<std::string> reap(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return "was ended by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return "ended with exit status " + std::to_string(WEXITSTATUS(status));
  return std::nullopt;
}

}  // namespace driftd
