// SPDX-License-Identifier: MIT
#include "clients/stage/backends/backends.hpp"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

namespace driftd::stage {
namespace {

constexpr double kTravel_nm = 1e6;
constexpr double kResolution_nm = 1e-4;  // the digits that are sent

class SimulatorStage : public Stage {
 public:
  explicit SimulatorStage(const StageOptions& options);
  ~SimulatorStage() override { close_socket(); }
  SimulatorStage(const SimulatorStage&) = delete;
  SimulatorStage& operator=(const SimulatorStage&) = delete;

  std::vector<Axis> connect() override;
  std::string description() const override { return "simulated stage at " + path_; }
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  Health health() override { return {}; }

 private:
  void send(const std::string& datagram);
  std::string answer();
  void close_socket();

  std::string path_;
  std::vector<std::string> names_;
  std::vector<std::size_t> places_;  ///< of x, y and z of the wire, for each axis
  bool has_z_ = false, has_xy_ = false;
  int timeout_ms_;
  int socket_ = -1;
};

SimulatorStage::SimulatorStage(const StageOptions& options)
    : path_(options.device), names_(options.axes), timeout_ms_(options.timeout_ms) {
  if (path_.empty() || path_.size() >= sizeof(sockaddr_un::sun_path)) {
    throw std::invalid_argument(
        fmt::format("device \"{}\": the simulator's is the path of a socket", path_));
  }
  for (const std::string& name : names_) {
    if (name != "x" && name != "y" && name != "z")
      throw std::invalid_argument(fmt::format("axis \"{}\": the simulator's are x, y and z", name));
    places_.push_back(static_cast<std::size_t>(name[0] - 'x'));
    (name == "z" ? has_z_ : has_xy_) = true;
  }
  if (has_xy_ && places_.size() != (has_z_ ? 3 : 2))
    throw std::invalid_argument("the simulator has x and y, always both");
}

std::vector<Axis> SimulatorStage::connect() {
  close_socket();
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) throw StageError(std::generic_category().message(errno));
  // Bound to no name, the kernel gives it one: the address that answers go to (unix(7), autobind).
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  sockaddr_un there{};
  there.sun_family = AF_UNIX;
  path_.copy(static_cast<char*>(there.sun_path), sizeof there.sun_path - 1);
  const auto* own_address = reinterpret_cast<const sockaddr*>(&own);      // NOLINT: sockets' way
  const auto* there_address = reinterpret_cast<const sockaddr*>(&there);  // NOLINT
  if (bind(socket_, own_address, sizeof own.sun_family) != 0 ||
      ::connect(socket_, there_address, sizeof there) != 0) {
    throw StageError(fmt::format("{}: {}", path_, std::generic_category().message(errno)));
  }
  std::array<double, 3> position{};
  read(std::span(position.data(), names_.size()));
  std::vector<Axis> axes;
  for (const std::string& name : names_) {
    axes.push_back({.name = name,
                    .min_nm = -kTravel_nm,
                    .max_nm = kTravel_nm,
                    .resolution_nm = kResolution_nm,
                    .closed_loop = true});
  }
  return axes;
}

bool SimulatorStage::move_to(std::span<const double> nm) {
  std::array<double, 3> wire{};
  wire.fill(kStays);
  for (std::size_t i = 0; i < nm.size(); ++i) wire[places_[i]] = nm[i];
  const auto [x, y, z] = wire;
  if (stays(x) && !stays(z))
    send(fmt::format("focus {:.4f}", z));
  else if (stays(z) && !stays(x))
    send(fmt::format("move {:.4f} {:.4f}", x, y));
  else if (!stays(x))
    send(fmt::format("move {:.4f} {:.4f} {:.4f}", x, y, z));
  return true;
}

void SimulatorStage::read(std::span<double> nm) {
  std::array<char, 64> old{};
  while (recv(socket_, old.data(), old.size(), MSG_DONTWAIT) >= 0) {  // answers that came too late
  }
  send("read");
  const std::string said = answer();
  // "X Y CX CY" of a flat world, "X Y Z CX CY CZ" of one with a focus stage.
  std::array<double, 6> wire{};
  std::size_t count = 0;
  const char* at = said.data();
  const char* const end = at + said.size();
  for (; count < wire.size(); ++count) {
    while (at != end && *at == ' ') ++at;
    const auto [stop, error] = std::from_chars(at, end, wire[count]);
    if (error != std::errc{}) break;
    at = stop;
  }
  if (count < 2 || (has_z_ && count < wire.size()))
    throw StageError(fmt::format("{} answered \"{}\"; \"{}\" was expected", path_, said,
                                 has_z_ ? "X Y Z CX CY CZ" : "X Y"));
  for (std::size_t i = 0; i < nm.size(); ++i) nm[i] = wire[places_[i]];
}

void SimulatorStage::send(const std::string& datagram) {
  if (::send(socket_, datagram.data(), datagram.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    throw StageError(fmt::format("{}: {}", path_, std::generic_category().message(errno)));
}

std::string SimulatorStage::answer() {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, timeout_ms_) <= 0)
    throw StageError(fmt::format("{} did not answer within {} ms", path_, timeout_ms_));
  std::array<char, 256> text{};
  const ssize_t length = recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
  if (length < 0)
    throw StageError(fmt::format("{}: {}", path_, std::generic_category().message(errno)));
  return {text.data(), static_cast<std::size_t>(length)};
}

void SimulatorStage::close_socket() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

}  // namespace

std::unique_ptr<Stage> make_simulator(const StageOptions& options) {
  return std::make_unique<SimulatorStage>(options);
}

}  // namespace driftd::stage
