// SPDX-License-Identifier: MIT
#include "simulator/sim_service.hpp"

#include <pthread.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/monotonic.hpp"
#include "simulator/gige_camera.hpp"
#include "simulator/live_simulation.hpp"
#include "simulator/sim_wire.hpp"
#include "simulator/stage_input.hpp"

namespace driftd::simulator {
namespace {

constexpr std::chrono::milliseconds kPoll{50};

zmq::socket_t bound(zmq::context_t& context, zmq::socket_type type, const std::string& endpoint) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::linger, 0);
  try {
    socket.bind(endpoint);
  } catch (const zmq::error_t& error) {
    throw std::runtime_error("cannot bind " + endpoint + ": " + error.what());
  }
  return socket;
}

}  // namespace

struct SimService::Parts {
  Parts(const Scenario& scenario, const ServiceSettings& settings)
      : simulation(scenario, [this](const TruthRecord& record) { publish(record); }) {
    if (!settings.stage_input.empty() && !settings.stage_endpoint.empty()) {
      throw std::invalid_argument(
          "--stage and --stage-input both move the stage: only one of them can be had");
    }
    if (!settings.truth_endpoint.empty()) {
      truth = bound(context, zmq::socket_type::pub, settings.truth_endpoint);
    }
    if (!settings.control_endpoint.empty()) {
      control = bound(context, zmq::socket_type::rep, settings.control_endpoint);
    }
    if (!settings.stage_endpoint.empty()) {
      stage = listening(settings.stage_endpoint, "correction ");
      if (simulation.has_focus_stage()) focus = listening(settings.stage_endpoint, "axial ");
    }
    if (!settings.stage_input.empty()) stage_input.emplace(settings.stage_input);
    camera.emplace(settings.identity, scenario.camera, simulation);
    wire = std::thread([this] { run_wire(); });
  }

  ~Parts() {
    stopping = true;
    wire.join();
    camera.reset();
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  /// To the newest message of one topic: a socket of both would keep but one of them.
  zmq::socket_t listening(const std::string& endpoint, const char* topic) {
    zmq::socket_t socket(context, zmq::socket_type::sub);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::conflate, 1);
    socket.set(zmq::sockopt::subscribe, topic);
    try {
      socket.connect(endpoint);
    } catch (const zmq::error_t& error) {
      throw std::runtime_error("cannot connect to " + endpoint + ": " + error.what());
    }
    return socket;
  }

  /// Stream thread: the truth socket is its own once the threads run.
  void publish(const TruthRecord& record) {
    if (!truth) return;
    const std::string text = truth_message(record, truth_seq++);
    truth.send(zmq::buffer(text), zmq::send_flags::dontwait);
  }

  void run_wire() {
    pthread_setname_np(pthread_self(), "sim-wire");
    std::vector<zmq::pollitem_t> items;
    if (stage) items.push_back({stage.handle(), 0, ZMQ_POLLIN, 0});
    if (focus) items.push_back({focus.handle(), 0, ZMQ_POLLIN, 0});
    if (control) items.push_back({control.handle(), 0, ZMQ_POLLIN, 0});
    if (stage_input) items.push_back({nullptr, stage_input->descriptor(), ZMQ_POLLIN, 0});
    while (!stopping) {
      if (items.empty()) {
        std::this_thread::sleep_for(kPoll);
        continue;
      }
      zmq::poll(items, kPoll);
      zmq::message_t message;
      if (stage && stage.recv(message, zmq::recv_flags::dontwait)) {
        move_stage(message.to_string());
      }
      if (focus && focus.recv(message, zmq::recv_flags::dontwait)) {
        move_focus(message.to_string());
      }
      if (stage_input) corrections.moves += stage_input->serve(simulation);
      if (control && control.recv(message, zmq::recv_flags::dontwait)) {
        const CameraState state{camera->frames_sent(), camera->frames_late(),
                                camera->resent_packets(), camera->controlled()};
        const std::string reply =
            answer_command(message.to_string(), simulation, state, corrections);
        control.send(zmq::buffer(reply), zmq::send_flags::none);
      }
    }
  }

  void move_stage(const std::string& message) {
    Vec2 target;
    switch (reader.read(message, monotonic_ns(), simulation.commanded_nm(), target)) {
      case CorrectionReader::Outcome::Move:
        simulation.command_stage(target);
        ++corrections.obeyed;
        break;
      case CorrectionReader::Outcome::Expired:
        ++corrections.expired;
        break;
      case CorrectionReader::Outcome::Rejected:
        break;
    }
  }

  void move_focus(const std::string& message) {
    double target_nm = 0;
    const double commanded_nm = simulation.commanded_z_nm();
    switch (reader.read_axial(message, monotonic_ns(), commanded_nm, target_nm)) {
      case CorrectionReader::Outcome::Move:
        simulation.command_focus(target_nm);
        ++corrections.axial_obeyed;
        break;
      case CorrectionReader::Outcome::Expired:
        ++corrections.axial_expired;
        break;
      case CorrectionReader::Outcome::Rejected:
        break;
    }
  }

  zmq::context_t context{1};
  zmq::socket_t truth;                    ///< stream thread
  zmq::socket_t control;                  ///< wire thread
  zmq::socket_t stage, focus;             ///< wire thread
  std::optional<StageInput> stage_input;  ///< wire thread
  std::uint64_t truth_seq = 0;
  CorrectionCounts corrections;
  CorrectionReader reader;
  LiveSimulation simulation;
  std::optional<GigeCamera> camera;
  std::atomic<bool> stopping{false};
  std::thread wire;
};

SimService::SimService(const Scenario& scenario, const ServiceSettings& settings)
    : parts_(std::make_unique<Parts>(scenario, settings)) {}

SimService::~SimService() = default;

std::uint64_t SimService::frames_sent() const noexcept {
  return parts_->camera->frames_sent();
}
std::uint64_t SimService::frames_late() const noexcept {
  return parts_->camera->frames_late();
}

}  // namespace driftd::simulator
