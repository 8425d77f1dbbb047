// SPDX-License-Identifier: MIT
#include "simulator/stage_input.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "simulator/live_simulation.hpp"

namespace driftd::simulator {
namespace {

/// A metre: far beyond any stage, and far from where numbers lose their nanometres.
constexpr double kFarthestNm = 1e9;
constexpr std::size_t kLongestRequest = 256;

std::string reason(int number) {
  return std::system_category().message(number);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    throw std::runtime_error("--stage-input: \"" + path + "\" has not 1 to " +
                             std::to_string(sizeof(address.sun_path) - 1) + " characters");
  }
  std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
  return address;
}

/// Removes the socket file of a program that has gone.
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode)) {
    throw std::runtime_error("--stage-input: " + path + " is there and is no socket");
  }
  const int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) throw std::runtime_error("no socket for --stage-input: " + reason(errno));
  const bool heard =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const int error = errno;
  close(probe);
  if (heard) throw std::runtime_error("--stage-input: another program listens at " + path);
  if (error == ECONNREFUSED) unlink(path.c_str());
}

/// Takes the next word off `text`, which then begins behind the one space after it.
std::string_view take_word(std::string_view& text) {
  const std::size_t space = text.find(' ');
  const std::string_view word = text.substr(0, space);
  text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  return word;
}

bool take_nm(std::string_view& text, double& value) {
  const std::string_view word = take_word(text);
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && stop == word.data() + word.size() &&
         std::abs(value) <= kFarthestNm;  // no "nan" either
}

}  // namespace

StageRequest parse_stage_request(std::string_view datagram, bool has_focus_stage) {
  StageRequest request;
  if (datagram == "read") {
    request.kind = StageRequest::Kind::Read;
    return request;
  }
  std::string_view rest = datagram;
  const std::string_view word = take_word(rest);
  const bool focus = has_focus_stage && word == "focus";
  if (word != "move" && !focus) {
    request.mistake = has_focus_stage ? R"(expected "move X Y", "move X Y Z", "focus Z" or "read")"
                                      : R"(expected "move X Y" or "read")";
    return request;
  }
  bool right = focus || (take_nm(rest, request.target_nm.x) && take_nm(rest, request.target_nm.y));
  if (right && (focus || (has_focus_stage && !rest.empty()))) {
    right = take_nm(rest, request.target_z_nm.emplace());
  }
  if (!right || !rest.empty() || datagram.back() == ' ') {
    request.mistake = has_focus_stage
                          ? "expected \"move X Y\", \"move X Y Z\" or \"focus Z\" with numbers "
                            "of nm from -1e9 to 1e9"
                          : "expected \"move X Y\" with two numbers of nm from -1e9 to 1e9";
  } else {
    request.kind = focus ? StageRequest::Kind::Focus : StageRequest::Kind::Move;
  }
  return request;
}

StageInput::StageInput(std::string path) : path_(std::move(path)) {
  const sockaddr_un address = address_of(path_);
  remove_stale(path_, address);
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) throw std::runtime_error("no socket for --stage-input: " + reason(errno));
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(socket_);
    throw std::runtime_error("--stage-input: cannot bind " + path_ + ": " + reason(error));
  }
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
  }
}

StageInput::~StageInput() {
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
    unlink(path_.c_str());
  }
  close(socket_);
}

std::uint64_t StageInput::serve(LiveSimulation& simulation) {
  std::uint64_t moves = 0;
  while (true) {
    std::array<char, kLongestRequest> bytes{};
    sockaddr_un sender{};
    socklen_t sender_length = sizeof(sender);
    const ssize_t length = recvfrom(socket_, bytes.data(), bytes.size(), MSG_TRUNC,
                                    reinterpret_cast<sockaddr*>(&sender), &sender_length);
    if (length < 0) return moves;
    StageRequest request;
    if (static_cast<std::size_t>(length) <= bytes.size()) {
      request = parse_stage_request({bytes.data(), static_cast<std::size_t>(length)},
                                    simulation.has_focus_stage());
    } else {
      request.mistake = "longer than any request";
    }
    std::string answer;
    switch (request.kind) {
      case StageRequest::Kind::Move:
        simulation.command_stage(request.target_nm);
        [[fallthrough]];
      case StageRequest::Kind::Focus:
        if (request.target_z_nm) simulation.command_focus(*request.target_z_nm);
        ++moves;
        continue;
      case StageRequest::Kind::Read: {
        const StageReadback place = simulation.stage_place();
        std::array<char, 256> text{};
        const int size =
            simulation.has_focus_stage()
                ? std::snprintf(text.data(), text.size(), "%.4f %.4f %.4f %.4f %.4f %.4f",
                                place.true_nm.x, place.true_nm.y, place.true_z_nm,
                                place.commanded_nm.x, place.commanded_nm.y, place.commanded_z_nm)
                : std::snprintf(text.data(), text.size(), "%.4f %.4f %.4f %.4f", place.true_nm.x,
                                place.true_nm.y, place.commanded_nm.x, place.commanded_nm.y);
        answer.assign(text.data(), static_cast<std::size_t>(size));
        break;
      }
      case StageRequest::Kind::Mistake:
        answer = "error: " + request.mistake;
        break;
    }
    if (sender_length > sizeof(sa_family_t)) {  // else it has no address to be answered at
      sendto(socket_, answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&sender), sender_length);
    }
  }
}

}  // namespace driftd::simulator
