// SPDX-License-Identifier: MIT
// The camera's protocol, packet by packet. Each case has a loopback address of its own, so that all
// of them may run at once.
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "base/monotonic.hpp"
#include "camera/aravis/gvcp_probe.hpp"
#include "simulator/gige_camera.hpp"
#include "support/catch.hpp"
#include "unit/simulator/gvcp_client.hpp"

using driftd::monotonic_ns;
using namespace driftd::simulator;
using driftd::test::GvcpClient;
using driftd::test::UdpSocket;
using gvcp::Command;
using gvcp::Status;
namespace reg = gvcp::reg;

namespace {

/// Fills each image with its frame id, and is away or lossy on demand.
class PatternProducer final : public FrameProducer {
 public:
  MadeFrame make(const FramePlan& plan, std::span<std::byte> image) override {
    if (!image.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(making_ms));
    for (std::size_t i = 0; i < image.size(); ++i) {
      image[i] = static_cast<std::byte>((i + plan.frame_id) & 0xff);
    }
    const bool late = plan.frame_count % 4 == 2;
    return {fate.load(), 0, time_error, late ? late_by_ns.load() : 0};
  }
  void prepare(const SensorSettings& /*settings*/) override {
    ++prepared;
    std::this_thread::sleep_for(std::chrono::milliseconds(preparing_ms));
  }
  bool camera_away() override { return away; }
  std::optional<std::int64_t> clock_error_ns(std::int64_t) override {
    if (!clock_shown) return std::nullopt;
    return clock_error.load();
  }
  std::atomic<bool> clock_shown{true};
  std::atomic<std::int64_t> clock_error{0}, time_error{0};
  std::atomic<std::int64_t> late_by_ns{0};  ///< of every fourth frame
  std::atomic<bool> away{false};
  std::atomic<int> prepared{0}, preparing_ms{0}, making_ms{0};
  std::atomic<FrameFate> fate{FrameFate::Send};
};

struct Bench {
  explicit Bench(const std::string& where, double rate_hz = 200)
      : address(where), camera({where, "TEST01"}, model_at(rate_hz), producer), client(where) {}
  static CameraModel model_at(double rate_hz) {
    CameraModel model;
    model.width_px = 64;
    model.height_px = 48;
    model.rate_hz = rate_hz;
    return model;
  }
  void take_control() { REQUIRE(client.write(reg::kControlPrivilege, 2) == Status::Success); }
  void start_stream(std::uint32_t packet_bytes = 1000) {
    take_control();
    REQUIRE(client.write(reg::kStreamAddress, INADDR_LOOPBACK) == Status::Success);
    REQUIRE(client.write(reg::kStreamPort, stream.port()) == Status::Success);
    REQUIRE(client.write(reg::kStreamPacketSize, packet_bytes) == Status::Success);
    REQUIRE(client.write(feature::kAcquisition, 1) == Status::Success);
  }
  /// Whether a stream packet arrives within half a second, after those already here.
  bool streams() {
    while (stream.receive(0)) {
    }
    return stream.receive(500).has_value();
  }

  std::string address;
  PatternProducer producer;
  GigeCamera camera;
  GvcpClient client;
  UdpSocket stream;
};

struct Packet {
  Status status;
  std::uint16_t frame_id;
  int content;
  std::uint32_t number;
  std::vector<std::uint8_t> data;
};

Packet parse(const std::vector<std::uint8_t>& raw) {
  REQUIRE(raw.size() >= gvcp::kStreamHeaderBytes);
  const std::uint32_t info = gvcp::get32(&raw[4]);
  return {static_cast<Status>(gvcp::get16(raw.data())),
          gvcp::get16(&raw[2]),
          static_cast<int>(info >> 24),
          info & 0xffffff,
          {raw.begin() + gvcp::kStreamHeaderBytes, raw.end()}};
}

/// The next frame that is seen from its leader to its trailer.
std::map<std::uint32_t, Packet> whole_frame(Bench& bench) {
  std::map<std::uint32_t, Packet> packets;
  for (int i = 0; i < 1000; ++i) {
    const auto raw = bench.stream.receive(1000);
    if (!raw) break;
    const Packet packet = parse(*raw);
    if (packet.content == 1) packets.clear();
    packets.insert_or_assign(packet.number, packet);
    if (packet.content == 2 && packets.count(0) == 1) return packets;
  }
  FAIL("no whole frame came");
  return packets;
}

}  // namespace

TEST_CASE("Discovery tells who the camera is") {
  Bench bench("127.71.0.1");
  const auto answer = bench.client.ask(Command::Discovery, {});
  REQUIRE(answer);
  CHECK(answer->command == 0x0003);
  CHECK(answer->id == bench.client.last_id());
  REQUIRE(answer->data.size() == gvcp::kDiscoveryBytes);
  const auto text = [&](std::size_t at) {
    return std::string(reinterpret_cast<const char*>(&answer->data[at]));
  };
  CHECK(text(reg::kManufacturer) == "driftd");
  CHECK(text(reg::kModel) == "driftd-sim");
  CHECK(text(0xd8) == "TEST01");
  CHECK(gvcp::get32(&answer->data[reg::kIpAddress]) == 0x7f470001);
}

TEST_CASE("A second simulator on the same address says so") {
  const Bench bench("127.71.0.2");
  CHECK_THROWS_AS(Bench("127.71.0.2"), std::runtime_error);
}

TEST_CASE("Addresses off the loopback net and bad serial numbers are refused") {
  PatternProducer producer;
  CHECK_THROWS_AS(GigeCamera({"192.0.2.1", "A"}, {}, producer), std::invalid_argument);
  CHECK_THROWS_AS(GigeCamera({"localhost", "A"}, {}, producer), std::invalid_argument);
  CHECK_THROWS_AS(GigeCamera({"127.71.0.3", ""}, {}, producer), std::invalid_argument);
  CHECK_THROWS_AS(GigeCamera({"127.71.0.3", "0123456789abcdef"}, {}, producer),
                  std::invalid_argument);
}

TEST_CASE("One controller at a time; others may read but not write") {
  Bench bench("127.71.0.4");
  GvcpClient other(bench.address);
  CHECK(bench.client.write(feature::kWidth, 32) == Status::AccessDenied);  // nobody has control
  bench.take_control();
  CHECK(bench.client.write(feature::kWidth, 32) == Status::Success);
  CHECK(other.write(reg::kControlPrivilege, 2) == Status::AccessDenied);
  CHECK(other.write(feature::kWidth, 64) == Status::AccessDenied);
  CHECK(other.write(reg::kControlPrivilege, 0) == Status::AccessDenied);
  CHECK(other.read(feature::kWidth) == 32);
  CHECK(other.read(reg::kControlPrivilege) == 2);
  CHECK(bench.client.write(reg::kControlPrivilege, 0) == Status::Success);
  CHECK_FALSE(bench.camera.controlled());
  CHECK(other.write(reg::kControlPrivilege, 2) == Status::Success);
}

TEST_CASE("Everybody may ask who has control, by a probe that takes none") {
  using namespace std::chrono_literals;
  Bench bench("127.71.0.24");
  driftd::camera::aravis::GvcpProbe probe(bench.address);
  CHECK(probe.read_register(reg::kControlPrivilege, 10s) == 0U);
  CHECK(probe.read_register(reg::kControllerAddress, 10s) == 0U);
  bench.take_control();
  CHECK(probe.read_register(reg::kControlPrivilege, 10s) == 2U);
  CHECK(probe.read_register(reg::kControllerAddress, 10s) == 0x7f000001U);
  CHECK(probe.read_register(reg::kControllerPort, 10s).value_or(0) > 0);
  CHECK_FALSE(probe.read_register(0xfffffffc, 10s).has_value());  // refused: there is none
  CHECK(probe.answered(10s));
  CHECK(bench.client.write(reg::kControlPrivilege, 0) == Status::Success);
  CHECK(probe.read_register(reg::kControllerPort, 10s) == 0U);
}

TEST_CASE("A controller that falls silent loses control, and the stream stops") {
  Bench bench("127.71.0.5");
  bench.start_stream();
  REQUIRE(bench.client.write(reg::kHeartbeatTimeout, 1500) == Status::Success);
  CHECK(bench.streams());
  // Reads keep it alive beyond the time-out, also where the machine makes each wait for a second.
  for (int i = 0; i < 18; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(bench.client.read(reg::kControlPrivilege) == 2);
  }
  GvcpClient other(bench.address);
  const auto silent_from = std::chrono::steady_clock::now();
  while (bench.camera.controlled() &&
         std::chrono::steady_clock::now() - silent_from < std::chrono::seconds(20)) {
    other.read(reg::kControlPrivilege);  // somebody else's reads do not count
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK_FALSE(bench.camera.controlled());
  CHECK(other.read(feature::kAcquisition) == 0);
  CHECK(other.write(reg::kControlPrivilege, 2) == Status::Success);
}

TEST_CASE("A frame comes as leader, payload and trailer") {
  Bench bench("127.71.0.6");
  bench.start_stream(1000);
  const std::int64_t before_ns = monotonic_ns();
  auto packets = whole_frame(bench);
  // 64 * 48 bytes in payloads of 1000 - 28 - 8 bytes: 4 packets between leader and trailer.
  REQUIRE(packets.size() == 6);
  const Packet& leader = packets.at(0);
  CHECK(gvcp::get16(&leader.data[2]) == 1);
  CHECK(gvcp::get32(&leader.data[12]) == 0x01080001);
  CHECK(gvcp::get32(&leader.data[16]) == 64);
  CHECK(gvcp::get32(&leader.data[20]) == 48);
  const auto ticks = (static_cast<std::int64_t>(gvcp::get32(&leader.data[4])) << 32) |
                     gvcp::get32(&leader.data[8]);
  CHECK(std::abs(ticks - before_ns) < 5'000'000'000);
  std::vector<std::uint8_t> image;
  for (std::uint32_t i = 1; i <= 4; ++i) {
    CHECK(packets.at(i).content == 3);
    CHECK(packets.at(i).frame_id == leader.frame_id);
    image.insert(image.end(), packets.at(i).data.begin(), packets.at(i).data.end());
  }
  REQUIRE(image.size() == 64 * 48);
  for (std::size_t i = 0; i < image.size(); ++i) {
    REQUIRE(image[i] == ((i + leader.frame_id) & 0xff));
  }
  CHECK(packets.at(5).content == 2);
}

TEST_CASE("A packet is sent again on request, as it was") {
  Bench bench("127.71.0.7", 20);
  bench.start_stream(1000);
  auto packets = whole_frame(bench);
  const std::uint16_t id = packets.at(0).frame_id;
  const UdpSocket elsewhere;  // only where the stream goes is sent to
  bench.client.ask_again(elsewhere, id, 2, 3);
  std::map<std::uint32_t, Packet> again;
  for (int i = 0; i < 50 && again.size() < 2; ++i) {
    const auto raw = bench.stream.receive(1000);
    REQUIRE(raw);
    const Packet packet = parse(*raw);
    if (packet.frame_id == id) again.insert_or_assign(packet.number, packet);
  }
  REQUIRE(again.size() == 2);
  CHECK(again.at(2).data == packets.at(2).data);
  CHECK(again.at(3).data == packets.at(3).data);
  CHECK(bench.camera.resent_packets() == 2);
}

TEST_CASE("A packet that is gone, or never was, is answered as unavailable") {
  Bench bench("127.71.0.8", 20);
  bench.producer.fate = FrameFate::Corrupt;
  bench.start_stream(1000);
  auto packets = whole_frame(bench);
  const std::uint16_t id = packets.at(0).frame_id;
  REQUIRE(packets.size() == 5);  // one of the six is withheld
  std::uint32_t missing = 0;
  while (packets.count(missing) == 1) ++missing;
  const auto refused = [&](std::uint16_t frame_id, std::uint32_t number) {
    bench.client.ask_again(bench.stream, frame_id, number, number);
    for (int i = 0; i < 50; ++i) {
      const auto raw = bench.stream.receive(1000);
      REQUIRE(raw);
      const Packet packet = parse(*raw);
      if (packet.status == Status::PacketUnavailable) {
        return packet.frame_id == frame_id && packet.number == number;
      }
    }
    return false;
  };
  CHECK(refused(id, missing));
  CHECK(refused(60000, 1));
}

TEST_CASE("Only the controller's host may ask for packets") {
  Bench bench("127.71.0.9", 20);
  GvcpClient client(bench.address);
  bench.client.ask_again(bench.stream, 1, 0, 5);  // nobody has control
  CHECK(client.read(feature::kWidth) == 64);      // the request before this one was handled
  CHECK(bench.camera.resent_packets() == 0);
}

TEST_CASE("A dropped frame leaves a gap in the ids") {
  Bench bench("127.71.0.10", 50);
  bench.start_stream(9000);
  const std::uint16_t before = whole_frame(bench).at(0).frame_id;
  bench.producer.fate = FrameFate::Drop;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  bench.producer.fate = FrameFate::Send;
  std::uint16_t last = before;
  int largest_step = 0;
  for (int i = 0; i < 20; ++i) {
    const std::uint16_t id = whole_frame(bench).at(0).frame_id;
    largest_step = std::max(largest_step, id - last);
    last = id;
  }
  CHECK(largest_step > 1);
}

TEST_CASE("Frame ids wrap from 65535 to 1") {
  PatternProducer producer;
  CameraModel model = Bench::model_at(200);
  model.first_frame_id = 65533;
  const GigeCamera camera({"127.71.0.11", "WRAP"}, model, producer);
  GvcpClient client("127.71.0.11");
  const UdpSocket stream;
  client.write(reg::kControlPrivilege, 2);
  client.write(reg::kStreamAddress, INADDR_LOOPBACK);
  client.write(reg::kStreamPort, stream.port());
  client.write(feature::kAcquisition, 1);
  std::vector<std::uint16_t> ids;
  while (ids.size() < 5) {
    const auto raw = stream.receive(2000);
    REQUIRE(raw);
    const Packet packet = parse(*raw);
    if (packet.content == 1) ids.push_back(packet.frame_id);
  }
  CHECK(ids == std::vector<std::uint16_t>{65533, 65534, 65535, 1, 2});
}

TEST_CASE("A camera whose cable is out neither answers nor streams, and comes back as new") {
  Bench bench("127.71.0.12");
  bench.start_stream();
  REQUIRE(bench.client.write(feature::kOffsetX, 0) == Status::Success);
  CHECK(bench.streams());
  bench.producer.away = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_FALSE(bench.client.read(feature::kWidth, 200).has_value());
  CHECK_FALSE(bench.client.ask(Command::Discovery, {}, 200).has_value());
  CHECK_FALSE(bench.streams());
  bench.producer.away = false;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(bench.client.read(feature::kAcquisition) == 0);
  CHECK(bench.client.read(reg::kControlPrivilege) == 0);
  CHECK(bench.client.read(reg::kStreamPort) == 0);
  CHECK_FALSE(bench.streams());
  bench.start_stream();
  // Rebooted: ids start again.
  CHECK(whole_frame(bench).at(0).frame_id < 100);
}

TEST_CASE("Values outside a register's range are refused and leave it as it was") {
  Bench bench("127.71.0.13");
  bench.take_control();
  auto& client = bench.client;
  CHECK(client.write(feature::kWidth, 0) == Status::InvalidParameter);
  CHECK(client.write(feature::kWidth, 30) == Status::InvalidParameter);  // steps of 4
  CHECK(client.write(feature::kWidth, 68) == Status::InvalidParameter);
  CHECK(client.read(feature::kWidth) == 64);
  CHECK(client.write(feature::kOffsetX, 4) == Status::InvalidParameter);
  CHECK(client.write(feature::kWidth, 32) == Status::Success);
  CHECK(client.write(feature::kOffsetX, 32) == Status::Success);
  CHECK(client.write(feature::kWidth, 64) == Status::InvalidParameter);  // does not fit any more
  CHECK(client.write(feature::kHeight, 47) == Status::InvalidParameter);
  CHECK(client.write(feature::kPixelFormat, 0x02180014) == Status::InvalidParameter);  // RGB8
  CHECK(client.write(reg::kStreamPacketSize, 100) == Status::InvalidParameter);
  CHECK(client.write(reg::kStreamPacketSize, 1001) == Status::InvalidParameter);
  CHECK(client.write(reg::kStreamAddress, 0xc0000201) == Status::InvalidParameter);  // 192.0.2.1
  CHECK(client.write(reg::kHeartbeatTimeout, 0) == Status::InvalidParameter);
  CHECK(client.write(feature::kSensorWidth, 1) == Status::WriteProtect);
  CHECK(client.write(0x48, 0) == Status::WriteProtect);
  CHECK(client.write(0x20000, 0) == Status::WriteProtect);  // the description
  CHECK(client.write(feature::kWidth + 1, 4) == Status::BadAlignment);
  CHECK(client.write(feature::kAcquisition, 1) == Status::Success);
  CHECK(client.write(feature::kWidth, 16) == Status::WriteProtect);  // not while streaming
}

TEST_CASE("Addresses beyond the memory and odd packets do no harm") {
  Bench bench("127.71.0.14");
  const auto status = [&](Command command, const std::vector<std::uint32_t>& words) {
    const auto answer = bench.client.ask(command, words);
    REQUIRE(answer);
    return answer->status;
  };
  CHECK(status(Command::ReadRegister, {0xfffffffc}) == Status::InvalidAddress);
  CHECK(status(Command::ReadRegister, {}) == Status::InvalidParameter);
  CHECK(status(Command::ReadRegister, {2}) == Status::BadAlignment);
  CHECK(status(Command::ReadMemory, {0xffffff00, 512}) == Status::InvalidAddress);
  CHECK(status(Command::ReadMemory, {0, 5000}) == Status::InvalidParameter);
  CHECK(status(Command::ReadMemory, {0, 0}) == Status::InvalidParameter);
  CHECK(status(Command::WriteMemory, {0}) == Status::InvalidParameter);
  CHECK(status(Command::WriteRegister, {1, 2, 3}) == Status::InvalidParameter);
  CHECK(status(static_cast<Command>(0x00ee), {}) == Status::NotImplemented);
  bench.client.send_raw({});
  bench.client.send_raw({0x42});
  bench.client.send_raw({0x17, 1, 0, 2, 0, 0, 0, 1});                       // not a command
  bench.client.send_raw({0x42, 1, 0, 0x80, 0xff, 0xff, 0, 1, 0, 0, 0, 8});  // claims 65535 bytes
  const auto answer = bench.client.receive_raw(1000);
  REQUIRE(answer);
  CHECK(gvcp::get16(answer->data()) == 0);  // read as far as it went: one register
  CHECK(bench.client.read(feature::kWidth) == 64);
}

TEST_CASE("A test packet has the size that was asked for") {
  Bench bench("127.71.0.15");
  bench.take_control();
  bench.client.write(reg::kStreamAddress, INADDR_LOOPBACK);
  bench.client.write(reg::kStreamPort, bench.stream.port());
  REQUIRE(bench.client.write(reg::kStreamPacketSize, gvcp::kPacketSizeFireTest | 8000) ==
          Status::Success);
  const auto packet = bench.stream.receive(1000);
  REQUIRE(packet);
  CHECK(packet->size() == 8000 - gvcp::kIpUdpBytes);
  CHECK(bench.client.read(reg::kStreamPacketSize) == 8000);
}

TEST_CASE("The camera's clock can be latched and may differ from the host's") {
  PatternProducer producer;
  CameraModel model = Bench::model_at(50);
  model.clock_offset_ns = 1'000'000'000'000;
  const GigeCamera camera({"127.71.0.16", "CLOCK"}, model, producer);
  GvcpClient client("127.71.0.16");
  client.write(reg::kControlPrivilege, 2);
  const std::int64_t before = monotonic_ns();
  REQUIRE(client.write(reg::kTimestampControl, 2) == Status::Success);
  const std::int64_t after = monotonic_ns();
  const std::int64_t latched =
      (static_cast<std::int64_t>(*client.read(reg::kTimestampHigh)) << 32) |
      *client.read(reg::kTimestampLow);
  CHECK(latched >= before + model.clock_offset_ns);
  CHECK(latched <= after + model.clock_offset_ns);
  CHECK(client.read(0x093c) == 0);           // tick frequency, high word
  CHECK(client.read(0x0940) == 1000000000);  // and low word: ns
}

TEST_CASE("A frame carries what the camera's clock shows, and 0 without one") {
  Bench bench("127.71.0.30");
  bench.start_stream();
  const auto frame_time_ns = [&] {
    while (bench.stream.receive(0)) {  // what was sent before
    }
    whole_frame(bench);  // may have been exposed before
    const auto leader = whole_frame(bench).at(0).data;
    return static_cast<std::int64_t>(gvcp::get32(&leader[4])) << 32 | gvcp::get32(&leader[8]);
  };
  constexpr std::int64_t kDay = 86'400'000'000'000;
  CHECK(std::abs(frame_time_ns() - monotonic_ns()) < kDay / 2);
  bench.producer.clock_error = 3 * kDay;
  CHECK(std::abs(frame_time_ns() - monotonic_ns() - 3 * kDay) < kDay / 2);
  bench.producer.time_error = 2 * kDay;
  CHECK(std::abs(frame_time_ns() - monotonic_ns() - 5 * kDay) < kDay / 2);
  bench.producer.time_error = 0;
  bench.producer.clock_shown = false;
  CHECK(frame_time_ns() == 0);
  bench.client.write(reg::kTimestampControl, 2);
  CHECK(bench.client.read(reg::kTimestampHigh) == 0);
  CHECK(bench.client.read(reg::kTimestampLow) == 0);
}

TEST_CASE("With the software trigger each command gives one frame") {
  Bench bench("127.71.0.17");
  bench.take_control();
  bench.client.write(feature::kTriggerMode, 1);
  bench.client.write(feature::kTriggerSource, 1);
  bench.start_stream(9000);
  CHECK_FALSE(bench.streams());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(bench.client.write(feature::kTriggerSoftware, 1) == Status::Success);
    CHECK(whole_frame(bench).size() == 3);
  }
  CHECK_FALSE(bench.streams());
  CHECK(bench.camera.frames_sent() == 3);
  // At once after it was stopped and started anew, too.
  for (int i = 0; i < 20; ++i) {
    bench.client.write(feature::kAcquisition, 0);
    bench.client.write(feature::kAcquisition, 1);
    REQUIRE(bench.client.write(feature::kTriggerSoftware, 1) == Status::Success);
    CHECK(whole_frame(bench).size() == 3);
  }
}

TEST_CASE("Single frames that are asked for as soon as the last one is there all come") {
  const int preparing_ms = GENERATE(0, 10);
  Bench bench("127.71.0.41", 1000);
  bench.producer.preparing_ms = preparing_ms;
  bench.take_control();
  bench.client.write(feature::kAcquisitionMode, 2);
  bench.start_stream(9000);
  const int frames = preparing_ms > 0 ? 20 : 200;
  for (int i = 0; i < frames; ++i) {
    CHECK(whole_frame(bench).size() == 3);
    CHECK(bench.client.read(feature::kAcquisition) == 0);
    if (i + 1 < frames) REQUIRE(bench.client.write(feature::kAcquisition, 1) == Status::Success);
  }
  CHECK_FALSE(bench.streams());
  CHECK(bench.camera.frames_sent() == static_cast<std::uint64_t>(frames));
  CHECK(bench.producer.prepared == frames);
}

TEST_CASE("A single frame that is delivered late comes") {
  Bench bench("127.71.0.42", 1000);
  bench.producer.late_by_ns = 20'000'000;  // of every fourth frame
  bench.take_control();
  bench.client.write(feature::kAcquisitionMode, 2);
  bench.start_stream(9000);
  for (int i = 0; i < 9; ++i) {
    CHECK(whole_frame(bench).size() == 3);
    REQUIRE(bench.client.write(feature::kAcquisition, 1) == Status::Success);
  }
}

TEST_CASE("A single frame that is delivered late does not come where it was stopped before") {
  Bench bench("127.71.0.44", 1000);
  bench.producer.late_by_ns = 300'000'000;  // of the second frame
  bench.take_control();
  bench.client.write(feature::kAcquisitionMode, 2);
  bench.start_stream(9000);
  CHECK(whole_frame(bench).size() == 3);
  REQUIRE(bench.client.write(feature::kAcquisition, 1) == Status::Success);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE(bench.client.write(feature::kAcquisition, 0) == Status::Success);
  CHECK_FALSE(bench.streams());
}

TEST_CASE("A single frame that is stopped does not stop what is started after it") {
  Bench bench("127.71.0.43", 1000);
  bench.take_control();
  bench.client.write(feature::kAcquisitionMode, 2);
  bench.producer.making_ms = 40;
  bench.start_stream(9000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it is being made
  bench.client.write(feature::kAcquisition, 0);
  bench.client.write(feature::kAcquisitionMode, 1);
  bench.client.write(feature::kAcquisition, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK(bench.client.read(feature::kAcquisition) == 1);
}

TEST_CASE("A frame that is delivered late holds those behind it, and all come in order") {
  Bench bench("127.71.0.40", 100);
  bench.producer.late_by_ns = 25'000'000;  // two and a half periods
  bench.start_stream(9000);
  std::vector<std::int64_t> arrivals;
  std::vector<int> ids;
  while (ids.size() < 24) {
    const auto raw = bench.stream.receive(1000);
    REQUIRE(raw);
    const Packet packet = parse(*raw);
    if (packet.content != 2) continue;
    arrivals.push_back(monotonic_ns());
    ids.push_back(packet.frame_id);
  }
  int bursts = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    CHECK(ids[i] == ids[i - 1] + 1);
    // The late one and the two behind it come at once, after a gap.
    if (arrivals[i] - arrivals[i - 1] < 3'000'000) ++bursts;
  }
  CHECK(bursts >= 4);  // 12 where the machine is not busy, none where each comes at its own time
}
