// SPDX-License-Identifier: MIT
#include "daemon/resume/state_writer.hpp"

#include <spdlog/fmt/fmt.h>

#include <exception>
#include <utility>

#include "base/process/realtime.hpp"
#include "base/state_file.hpp"

namespace driftd::daemon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAgain{1};

}  // namespace

StateWriter::StateWriter(std::filesystem::path file, std::chrono::milliseconds patience)
    : file_(std::move(file)),
      patience_(patience),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void StateWriter::write(SavedLock lock) {
  order(std::move(lock));
}

void StateWriter::write(std::string text) {
  order(std::move(text));
}

void StateWriter::remove() {
  order(Removal{});
}

void StateWriter::order(Order order) {
  const std::lock_guard guard(mutex_);
  order_ = std::move(order);
  changed_.notify_one();
}

std::string StateWriter::problem() {
  const std::lock_guard guard(mutex_);
  if (begun_ && Clock::now() - *begun_ > patience_)
    return fmt::format("the disk of {} has not answered for {} s", file_.string(),
                       std::chrono::duration<double>(patience_).count());
  return problem_;
}

bool StateWriter::is_busy() {
  const std::lock_guard guard(mutex_);
  return order_ || begun_;
}

void StateWriter::run(const std::stop_token& stop) {
  schedule_as_ordinary("driftd-state");
  std::unique_lock lock(mutex_);
  const auto is_ordered = [this] { return order_.has_value(); };
  while (changed_.wait(lock, stop, is_ordered)) {
    Order order = *std::exchange(order_, std::nullopt);
    begun_ = Clock::now();
    lock.unlock();
    std::string problem = carry_out(order);
    lock.lock();
    begun_.reset();
    problem_ = std::move(problem);
    if (problem_.empty() || stop.stop_requested()) continue;
    if (!changed_.wait_for(lock, stop, kAgain, is_ordered)) order_ = std::move(order);
  }
}

std::string StateWriter::carry_out(const Order& order) const {
  try {
    if (const auto* lock = std::get_if<SavedLock>(&order))
      write_state(file_, to_text(*lock));
    else if (const auto* text = std::get_if<std::string>(&order))
      write_state(file_, *text);
    else
      remove_state(file_);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace driftd::daemon
