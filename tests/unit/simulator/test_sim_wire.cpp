// SPDX-License-Identifier: MIT
#include "simulator/sim_wire.hpp"

#include <unistd.h>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <zmq.hpp>

#include "simulator/sim_service.hpp"
#include "support/catch.hpp"

using namespace driftd::simulator;
using nlohmann::json;

namespace {

std::string correction(double x, double y, const std::string& session, int lock_id) {
  return "correction " +
         json{{"v", 1},          {"seq", 0},       {"session", session}, {"lock_id", lock_id},
              {"total_x_nm", x}, {"total_y_nm", y}}
             .dump();
}

Scenario still_world() {
  Scenario scenario;
  scenario.camera.width_px = scenario.camera.height_px = 32;
  scenario.camera.rate_hz = 100;
  scenario.markers.positions_px = {{16, 16}};
  return scenario;
}

/// An ipc endpoint that no other test has.
std::string endpoint(const std::string& name) {
  return "ipc:///tmp/driftd-sim-test-" + std::to_string(getpid()) + "-" + name;
}

json receive(zmq::socket_t& socket, const std::string& topic) {
  socket.set(zmq::sockopt::rcvtimeo, 5000);
  zmq::message_t message;
  REQUIRE(socket.recv(message));
  const std::string text = message.to_string();
  REQUIRE(text.rfind(topic, 0) == 0);
  return json::parse(text.substr(topic.size()));
}

}  // namespace

TEST_CASE("Corrections count from the stage's place at lock") {
  CorrectionReader reader;
  Vec2 target;
  const auto moves = [&](double x, double y, const std::string& session, int lock_id, Vec2 from) {
    return reader.read(correction(x, y, session, lock_id), 0, from, target) ==
           CorrectionReader::Outcome::Move;
  };
  REQUIRE(moves(10, -5, "aa", 1, {0, 0}));
  CHECK(target.x == 10);
  CHECK(target.y == -5);
  REQUIRE(moves(12, -6, "aa", 1, {10, -5}));
  CHECK(target.x == 12);
  SECTION("a new lock starts from where the stage is") {
    REQUIRE(moves(1, 1, "aa", 2, {12, -6}));
    CHECK(target.x == 13);
    CHECK(target.y == -5);
    REQUIRE(moves(2, 1, "aa", 2, {13, -5}));
    CHECK(target.x == 14);
  }
  SECTION("so does a restarted daemon") {
    REQUIRE(moves(1, 1, "bb", 1, {12, -6}));
    CHECK(target.x == 13);
  }
}

TEST_CASE("What is not a correction with finite numbers moves nothing") {
  CorrectionReader reader;
  Vec2 target{7, 7};
  for (const char* message :
       {"", "correction ", "correction {", "correction []", "correction {\"total_x_nm\":1}",
        "correction {\"total_x_nm\":null,\"total_y_nm\":1}",
        "correction {\"total_x_nm\":1e999,\"total_y_nm\":1}",
        "correction {\"total_x_nm\":1,\"total_y_nm\":1,\"lock_id\":\"x\"}",
        "correction {\"total_x_nm\":1,\"total_y_nm\":1,\"session\":5}",
        "correction {\"total_x_nm\":1,\"total_y_nm\":1,\"expires_ns\":\"soon\"}",
        "position {\"total_x_nm\":1,\"total_y_nm\":1}"}) {
    INFO(message);
    CHECK(reader.read(message, 0, {0, 0}, target) == CorrectionReader::Outcome::Rejected);
  }
  CHECK(target.x == 7);
}

TEST_CASE("A correction that comes after its time moves nothing, not even the zero") {
  CorrectionReader reader;
  Vec2 target{7, 7};
  const auto read = [&](int lock_id, std::int64_t expires_ns, std::int64_t now_ns) {
    json body = json::parse(correction(10, 4, "aa", lock_id).substr(11));
    body["expires_ns"] = expires_ns;
    return reader.read("correction " + body.dump(), now_ns, {3, -2}, target);
  };
  CHECK(read(1, 1000, 1001) == CorrectionReader::Outcome::Expired);
  CHECK(target.x == 7);
  CHECK(read(1, 1000, 1000) == CorrectionReader::Outcome::Move);
  CHECK(target.x == 13);
  CHECK(target.y == 2);
}

TEST_CASE("Corrections of z have a zero and a lock of their own") {
  CorrectionReader reader;
  double target_z_nm = 7;
  Vec2 target;
  const auto axial = [&](const std::string& text, double from_nm) {
    return reader.read_axial("axial " + text, 50, from_nm, target_z_nm);
  };
  using Outcome = CorrectionReader::Outcome;
  REQUIRE(reader.read(correction(10, -5, "aa", 1), 0, {0, 0}, target) == Outcome::Move);
  REQUIRE(axial(R"({"session":"aa","lock_id":2,"total_z_nm":-3})", 100) == Outcome::Move);
  CHECK(target_z_nm == 97);
  REQUIRE(axial(R"({"session":"aa","lock_id":2,"total_z_nm":-4})", 97) == Outcome::Move);
  CHECK(target_z_nm == 96);
  REQUIRE(reader.read(correction(11, -5, "aa", 1), 0, {10, -5}, target) == Outcome::Move);
  CHECK(target.x == 11);  // z's lock has not moved its zero
  CHECK(axial(R"({"session":"aa","lock_id":3,"total_z_nm":1,"expires_ns":49})", 0) ==
        Outcome::Expired);
  for (const char* wrong : {"", "{", R"({"total_z_nm":null})", R"({"total_z_nm":1e999})",
                            R"({"total_x_nm":1,"total_y_nm":1})"})
    CHECK(axial(wrong, 0) == Outcome::Rejected);
  CHECK(reader.read_axial(correction(1, 1, "aa", 1), 50, 0, target_z_nm) == Outcome::Rejected);
  CHECK(reader.read(R"(axial {"total_x_nm":1,"total_y_nm":1})", 50, {}, target) ==
        Outcome::Rejected);
  CHECK(target_z_nm == 96);
}

TEST_CASE("A truth message is JSON with every field") {
  TruthRecord record;
  record.truth.sample_nm = {1.5, -2.25};
  record.truth.stage_nm = {1e5, -1e5};
  record.truth.commanded_z_nm = -7.5;
  record.plan.frame_id = 65535;
  record.plan.frame_count = 1ULL << 40;
  record.plan.camera_time_ns = INT64_MAX;
  record.middle_ns = INT64_MAX;
  record.sent = true;
  record.camera_away = true;
  const std::string text = truth_message(record, UINT64_MAX);
  REQUIRE(text.rfind("truth ", 0) == 0);
  const json body = json::parse(text.substr(6));
  CHECK(body["v"] == 1);
  CHECK(body["seq"] == UINT64_MAX);
  CHECK(body["frame_id"] == 65535);
  CHECK(body["frame_count"] == 1ULL << 40);
  CHECK(body["camera_time_ns"] == INT64_MAX);
  CHECK(body["sample_y_nm"] == -2.25);
  CHECK(body["stage_x_nm"] == 1e5);
  CHECK(body["camera_away"] == true);
  CHECK(body["sent"] == true);
  CHECK(body["commanded_z_nm"] == -7.5);
  for (const char* key :
       {"time_ns", "disturbance_x_nm", "disturbance_y_nm", "commanded_x_nm", "commanded_y_nm",
        "line1_high", "markers_hidden", "stage_stuck", "stage_y_nm", "stage_z_stuck", "sample_z_nm",
        "disturbance_z_nm", "stage_z_nm"}) {
    CHECK(body.contains(key));
  }
}

TEST_CASE("Commands are carried out or refused with a reason") {
  LiveSimulation simulation(still_world(), {});
  const auto ask = [&](const std::string& request) {
    return json::parse(answer_command(request, simulation, {}, {.obeyed = 3, .expired = 5}));
  };
  CHECK(ask(R"({"command":"status"})")["corrections"] == 3);
  CHECK(ask(R"({"command":"status"})")["corrections_expired"] == 5);
  CHECK(ask(R"({"command":"vanish","seconds":100})")["ok"] == true);
  CHECK(simulation.camera_away());
  CHECK(ask(R"({"command":"status"})")["camera_away"] == true);
  for (const char* good :
       {R"({"command":"hide_markers","seconds":1})",
        R"({"command":"drop_frames","share":0.5,"seconds":1})",
        R"({"command":"corrupt_frames","share":0.5,"seconds":1})",
        R"({"command":"lose_packets","share":0.5,"seconds":1})",
        R"({"command":"stage_stuck","seconds":1})", R"({"command":"step","x_nm":5,"y_nm":-5})",
        R"({"command":"stage_reversed"})", R"({"command":"stage_gain","factor":0.5})",
        R"({"command":"stage_turned","degrees":-60})", R"({"command":"stage_dead"})",
        R"({"command":"clock_step","shift_s":-1})", R"({"command":"clock_jump","shift_s":1})",
        R"({"command":"clock_rate","factor":8})", R"({"command":"clock_absent","seconds":1})",
        R"({"command":"detach_marker","index":0})",
        R"({"command":"walk_marker","index":0,"x_nm":1,"y_nm":-2,"seconds":1})",
        R"({"command":"intruder","index":0,"seconds":1})"}) {
    INFO(good);
    CHECK(ask(good)["ok"] == true);
  }
  for (const char* bad :
       {"", "{", "[]", R"({"command":5})", R"({"command":"explode"})",
        R"({"command":"vanish","second":1})", R"({"command":"vanish","seconds":-1})",
        R"({"command":"vanish","seconds":"1"})", R"({"command":"drop_frames","share":1.5})",
        R"({"command":"detach_marker","index":1})", R"({"command":"detach_marker","index":0.5})",
        R"({"command":"walk_marker","index":1,"x_nm":1})",
        R"({"command":"stage_gain","factor":-1})", R"({"command":"stage_turned","degrees":361})",
        R"({"command":"clock_step","shift_s":"1"})", R"({"command":"step","x_nm":1e300})"}) {
    INFO(bad);
    const json reply = ask(bad);
    CHECK(reply["ok"] == false);
    CHECK_FALSE(reply["error"].get<std::string>().empty());
  }
}

TEST_CASE("Over its sockets the service takes corrections and commands and tells the truth") {
  zmq::context_t context;
  zmq::socket_t daemon(context, zmq::socket_type::pub);
  daemon.bind(endpoint("daemon"));
  ServiceSettings settings;
  settings.identity = {"127.71.2.1", "WIRE"};
  settings.stage_endpoint = endpoint("daemon");
  settings.truth_endpoint = endpoint("truth");
  settings.control_endpoint = endpoint("control");
  Scenario scenario = still_world();
  scenario.stage.noise_nm = 0;
  scenario.stage.image_to_stage = {{{0, 1}, {-1, 0}}};
  scenario.focus_stage.emplace().actuator.noise_nm = 0;
  const SimService service(scenario, settings);

  zmq::socket_t truth(context, zmq::socket_type::sub);
  truth.set(zmq::sockopt::subscribe, "truth ");
  truth.connect(settings.truth_endpoint);
  const json first = receive(truth, "truth ");
  const json second = receive(truth, "truth ");
  CHECK(second["seq"].get<std::uint64_t>() == first["seq"].get<std::uint64_t>() + 1);
  CHECK(second["time_ns"].get<std::int64_t>() > first["time_ns"].get<std::int64_t>());
  CHECK(first["sent"] == false);  // no client yet

  zmq::socket_t control(context, zmq::socket_type::req);
  control.set(zmq::sockopt::rcvtimeo, 5000);
  control.connect(settings.control_endpoint);
  control.send(zmq::buffer(std::string(R"({"command":"step","x_nm":30,"y_nm":0})")),
               zmq::send_flags::none);
  CHECK(receive(control, "")["ok"] == true);

  // Sent again and again: the simulator may connect later than the first.
  json now;
  for (int i = 0; i < 500; ++i) {
    daemon.send(zmq::buffer(correction(0, 30, "aa", 1)), zmq::send_flags::none);
    daemon.send(zmq::str_buffer(R"(axial {"session":"aa","lock_id":2,"total_z_nm":-8})"),
                zmq::send_flags::none);
    now = receive(truth, "truth ");
    if (std::abs(now["stage_y_nm"].get<double>() - 30) < 0.1 &&
        std::abs(now["stage_z_nm"].get<double>() + 8) < 0.1)
      break;
  }
  CHECK(now["commanded_y_nm"] == 30);
  CHECK(now["commanded_z_nm"] == -8);
  CHECK(std::abs(now["sample_z_nm"].get<double>() + 8) < 0.2);
  CHECK(now["disturbance_x_nm"] == 30);
  // M^-1 * (0, 30) = (-30, 0): the image is back where it was.
  CHECK(std::abs(now["sample_x_nm"].get<double>()) < 0.2);
  CHECK(std::abs(now["sample_y_nm"].get<double>()) < 0.2);
}

TEST_CASE("Endpoints that cannot be had are an error") {
  ServiceSettings settings;
  settings.identity = {"127.71.2.2", "WIRE"};
  settings.truth_endpoint = "tcp://127.0.0.1:notaport";
  CHECK_THROWS_AS(SimService(still_world(), settings), std::runtime_error);
}
