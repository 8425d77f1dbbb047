// SPDX-License-Identifier: MIT
#include "clients/driftctl/commands/keep_snapshot.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "base/monotonic.hpp"
#include "base/process/stop_signal.hpp"
#include "base/replaceable.hpp"
#include "clients/driftctl/camera/snapshot_image.hpp"

namespace driftd::clients {
namespace {

/// The next snapshot, or why there is none for now.
struct Outcome {
  std::optional<Reply> reply;
  std::string away;
};

Outcome next_one(const std::function<Reply()>& ask) {
  try {
    return {ask(), {}};
  } catch (const Unreachable& error) {
    return {std::nullopt, error.what()};
  } catch (const Refused& refused) {
    // A camera that is away, a daemon that ends or has much to do: all of it passes.
    for (const char* passing : {"no_frame", "busy", "stopping", "timeout"}) {
      if (refused.code == passing) return {std::nullopt, refused.what()};
    }
    throw;
  }
}

}  // namespace

void replace_snapshot(const Reply& snapshot, const std::filesystem::path& file) {
  if (const std::string why = why_not_replaced(file); !why.empty())
    throw std::runtime_error(fmt::format("cannot write {}: it {}", file.string(), why));
  const std::filesystem::path beside =
      file.parent_path() / fmt::format(".{}.{}.tmp", file.filename().string(), getpid());
  try {
    write_png(draw_snapshot(snapshot.body.at("frame"), snapshot.attachment), beside);
    std::filesystem::rename(beside, file);
  } catch (const std::filesystem::filesystem_error& error) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw std::runtime_error(
        fmt::format("cannot write {}: {}", file.string(), error.code().message()));
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
}

void keep_snapshot(const KeepSnapshot& settings, const std::function<Reply()>& ask) {
  StopSignal stop;
  const std::int64_t start_ns = monotonic_ns();
  const auto period_ns = static_cast<std::int64_t>(settings.every_s * 1e9);
  const auto over = [&] {
    return stop.raised() || (settings.for_s > 0 && static_cast<double>(monotonic_ns() - start_ns) >=
                                                       settings.for_s * 1e9);
  };
  Outcome outcome{ask(), {}};
  fmt::print(stderr, "Drawing to {} every {:g} s. Ctrl-C ends it.\n", settings.file.string(),
             settings.every_s);
  bool away = false;
  std::int64_t due_ns = start_ns;
  while (true) {
    if (outcome.reply) {
      replace_snapshot(*outcome.reply, settings.file);
      if (away) fmt::print(stderr, "driftctl: pictures come again\n");
      away = false;
      if (settings.json) {
        fmt::print("{}\n", outcome.reply->body.at("frame").dump());
        std::fflush(stdout);
      }
    } else if (!away) {
      fmt::print(stderr, "driftctl: {}; {} stays as it is until pictures come again\n",
                 outcome.away, settings.file.string());
      away = true;
    }
    due_ns = std::max(due_ns + period_ns, monotonic_ns());
    while (!over() && monotonic_ns() < due_ns) {
      constexpr std::int64_t kPatienceNs = 50'000'000;
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(std::min(kPatienceNs, due_ns - monotonic_ns() + 1)));
    }
    if (over()) return;
    outcome = next_one(ask);
  }
}

}  // namespace driftd::clients
