// SPDX-License-Identifier: MIT
#include "daemon/state_writer.hpp"

#include <pthread.h>

#include <exception>
#include <utility>

#include "daemon/state_file.hpp"

namespace driftd::daemon {

StateWriter::StateWriter(std::filesystem::path file)
    : file_(std::move(file)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void StateWriter::write(SavedLock lock) {
  order(std::move(lock));
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
  return problem_;
}

void StateWriter::run(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "driftd-state");
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return order_.has_value(); })) {
    const Order order = *std::exchange(order_, std::nullopt);
    lock.unlock();
    std::string problem = carry_out(order);
    lock.lock();
    problem_ = std::move(problem);
  }
}

std::string StateWriter::carry_out(const Order& order) const {
  try {
    if (const auto* lock = std::get_if<SavedLock>(&order))
      write_state(file_, to_text(*lock));
    else
      remove_state(file_);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace driftd::daemon
