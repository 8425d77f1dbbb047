// SPDX-License-Identifier: MIT
// Thorlabs piezo controllers KPZ and BPC by the APT protocol: binary messages of a six-byte header
// and up to some 90 bytes, little endian, at 115200 baud with RTS/CTS. Facts and their sources:
// "Thorlabs Motion Controllers Host-Controller Communications Protocol" (December 2025),
// Introduction (header, addresses), "Generic system control" and "Piezo control messages".
//
// Axes: "1" is channel 1 of a unit alone (address 0x50), "bay2" is channel 1 of bay 2 of a rack
// (0x22). Two units, each with its own USB: both devices with a comma between, one for each axis.
// Sets are not answered; errors come unasked (0x0080, 0x0081). Behind each target its unit is asked
// for its status: the answer, collected before anything else is sent, says that it has dealt with
// the target and would follow it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/stage/backends/backends.hpp"
#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/transport/connection.hpp"

namespace driftd::stage {

namespace {

constexpr std::uint8_t kHost = 0x01;
constexpr std::uint8_t kRack = 0x11;
constexpr std::uint8_t kUnit = 0x50;
constexpr std::uint8_t kBayBefore = 0x20;
constexpr unsigned kDataFollows = 0x80;
constexpr std::size_t kHeaderSize = 6;
constexpr std::size_t kStatusSize = 10;
constexpr std::size_t kLongestData = 255;

constexpr std::uint16_t kDisconnect = 0x0002;
constexpr std::uint16_t kRequestInfo = 0x0005;
constexpr std::uint16_t kInfo = 0x0006;
constexpr std::uint16_t kStopUpdates = 0x0012;
constexpr std::uint16_t kResponse = 0x0080;
constexpr std::uint16_t kRichResponse = 0x0081;
constexpr std::uint16_t kSetEnabled = 0x0210;
constexpr std::uint16_t kSetMode = 0x0640;
constexpr std::uint16_t kRequestMode = 0x0641;
constexpr std::uint16_t kMode = 0x0642;
constexpr std::uint16_t kSetPosition = 0x0646;
constexpr std::uint16_t kRequestTravel = 0x0650;
constexpr std::uint16_t kTravel = 0x0651;
constexpr std::uint16_t kRequestStatus = 0x0660;
constexpr std::uint16_t kStatus = 0x0661;
constexpr std::uint16_t kKeepAlive = 0x0662;

constexpr std::uint8_t kClosedLoop = 2;
constexpr std::uint8_t kClosedLoopSmooth = 4;
constexpr std::uint32_t kZeroed = 0x10;
constexpr std::uint32_t kZeroing = 0x20;
constexpr std::uint32_t kClosedLoopBit = 0x400;
constexpr std::uint32_t kEnabled = 0x80000000;
constexpr double kFullScale = 32767;
constexpr double kNmPerTravelCount = 100;

/// After 50 status messages without a sign of life a unit falls silent.
constexpr std::int64_t kKeepAliveNs = driftd::kNanosecondsPerSecond;
constexpr auto kPurgePause = std::chrono::milliseconds(50);

std::uint16_t half_at(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[at]) |
                                    static_cast<unsigned char>(bytes[at + 1]) << 8U);
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  return half_at(bytes, at) | std::uint32_t{half_at(bytes, at + 2)} << 16U;
}

void append_half(std::string& bytes, unsigned value) {
  bytes += static_cast<char>(static_cast<unsigned char>(value));
  bytes += static_cast<char>(static_cast<unsigned char>(value >> 8U));
}

void append_short(std::string& bytes, std::uint16_t id, unsigned first, unsigned second,
                  unsigned to) {
  append_half(bytes, id);
  append_half(bytes, first | second << 8U);
  append_half(bytes, to | unsigned{kHost} << 8U);
}

struct Message {
  std::uint16_t id = 0;
  std::uint8_t first = 0;
  std::uint8_t second = 0;
  std::uint8_t source = 0;
  std::string data;
};

struct Unit {
  std::size_t line = 0;
  std::uint8_t address = kUnit;
  std::uint8_t channel = 1;
  double travel_nm = 0;
  double place_nm = 0;
  std::uint32_t status = 0;
  bool answer_due = false;  ///< of the status behind its target
};

bool follows(std::uint32_t status) {
  return (status & kZeroing) == 0 && (status & kEnabled) != 0 && (status & kClosedLoopBit) != 0;
}

Unit parse_axis(const std::string& name) {
  const bool bay = name.starts_with("bay");
  const auto number = parse_number(bay ? name.substr(3) : name);
  const double most = bay ? 10 : 8;
  if (!number || *number != std::floor(*number) || *number < 1 || *number > most) {
    throw std::invalid_argument("axis '" + name +
                                "' is no Thorlabs channel, expected 1 to 8 or bay1 to bay10");
  }
  const auto whole = static_cast<std::uint8_t>(*number);
  Unit unit;
  if (bay) {
    unit.address = static_cast<std::uint8_t>(kBayBefore + whole);
  } else {
    unit.channel = whole;
  }
  return unit;
}

class ThorlabsApt final : public Stage {
 public:
  explicit ThorlabsApt(const StageOptions& options);

  std::vector<Axis> connect() override;
  void disconnect() noexcept override {
    for (Connection& line : lines_) line.drop();
  }
  std::string description() const override { return description_; }
  bool prepare() override;
  void expires_at(std::int64_t expires_ns) override { expires_ns_ = expires_ns; }
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  Health health() override;

 private:
  void send(const Unit& unit, std::uint16_t id, unsigned first, unsigned second);
  void send_to_each(std::uint16_t id);
  Message receive(Connection& line);
  Message ask(const Unit& unit, std::uint16_t question, std::uint16_t answer, std::size_t size);
  void collect();
  void collect_message(Connection& line);
  bool is_answer(const Message& message, std::uint16_t id, std::size_t size, const Unit& unit);
  void take_status(Unit& unit, const std::string& data);
  void note_unasked(const Message& message);
  void check_units() const;
  void open_lines();
  void describe(const Unit& unit);
  void close_loop(const Unit& unit);
  void ask_status(Unit& unit);
  void keep_alive();

  StageOptions options_;
  std::vector<Connection> lines_;
  std::vector<Unit> units_;
  std::vector<Axis> axes_;
  std::string description_;
  std::vector<std::string> commands_;  ///< of a move, for each line
  std::int64_t alive_ns_ = 0;
  std::int64_t expires_ns_ = std::numeric_limits<std::int64_t>::max();  ///< of the next move
  Refusal refusal_;
  bool not_taken_ = false;  ///< the last move, until prepare() has told it
};

ThorlabsApt::ThorlabsApt(const StageOptions& options) : options_(options) {
  std::string_view rest = options.device;
  while (true) {
    const std::size_t comma = rest.find(',');
    lines_.emplace_back(std::string(trimmed(rest.substr(0, comma))), options.baud, true,
                        options.timeout_ms);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  for (const std::string& axis : options.axes) {
    units_.push_back(parse_axis(axis));
    if (lines_.size() > 1) units_.back().line = units_.size() - 1;
  }
  if (lines_.size() > 1 && lines_.size() != units_.size()) {
    throw std::invalid_argument("device names " + std::to_string(lines_.size()) + " lines for " +
                                std::to_string(units_.size()) +
                                " axes, expected one line, or one for each axis");
  }
  check_units();
  commands_.resize(lines_.size());
}

/// "1" and "1.0" are one channel: y's target would take x's place.
void ThorlabsApt::check_units() const {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (units_[i].line != units_[j].line || units_[i].address != units_[j].address ||
          units_[i].channel != units_[j].channel) {
        continue;
      }
      throw std::invalid_argument("axes '" + options_.axes[j] + "' and '" + options_.axes[i] +
                                  "' are one Thorlabs channel, expected two");
    }
  }
}

void ThorlabsApt::send(const Unit& unit, std::uint16_t id, unsigned first, unsigned second) {
  std::string message;
  append_short(message, id, first, second, unit.address);
  lines_[unit.line]->write(message);
}

/// To each address once: two channels may have one.
void ThorlabsApt::send_to_each(std::uint16_t id) {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const bool told =
        i > 0 && units_[i].line == units_[i - 1].line && units_[i].address == units_[i - 1].address;
    if (!told) send(units_[i], id, 0, 0);
  }
}

/// The answers to the questions behind the last move, in whatever order they come.
void ThorlabsApt::collect() {
  Refusal before = std::exchange(refusal_, {});
  for (Unit& unit : units_) {
    for (int i = 0; unit.answer_due; ++i) {
      if (i == 64) lines_[unit.line]->refuse("64 other messages", "the status among them");
      collect_message(lines_[unit.line]);
    }
  }
  if (refusal_.happened())
    not_taken_ = true;
  else
    refusal_ = std::move(before);
}

void ThorlabsApt::collect_message(Connection& line) {
  const Message message = receive(line);
  note_unasked(message);
  for (Unit& unit : units_) {
    if (&lines_[unit.line] != &line || !is_answer(message, kStatus, kStatusSize, unit)) continue;
    take_status(unit, message.data);
    if (std::exchange(unit.answer_due, false) && !follows(unit.status)) not_taken_ = true;
  }
}

bool ThorlabsApt::prepare() {
  collect();
  return !std::exchange(not_taken_, false);
}

Message ThorlabsApt::receive(Connection& line) {
  constexpr std::string_view kExpected = "a message to 0x01 from 0x11, 0x21 to 0x2a or 0x50";
  const std::string header = line->read_exactly(kHeaderSize, kExpected);
  Message message{.id = half_at(header, 0),
                  .first = static_cast<std::uint8_t>(header[2]),
                  .second = static_cast<std::uint8_t>(header[3]),
                  .source = static_cast<std::uint8_t>(header[5]),
                  .data = {}};
  const unsigned to = static_cast<unsigned char>(header[4]);
  const bool known = message.source == kRack || message.source == kUnit ||
                     (message.source > kBayBefore && message.source <= kBayBefore + 10);
  const std::size_t size = (to & kDataFollows) != 0 ? half_at(header, 2) : 0;
  if ((to & ~kDataFollows) != kHost || !known || size > kLongestData) {
    line->refuse(header, kExpected);
  }
  message.data = line->read_exactly(size, "the " + std::to_string(size) + " bytes announced");
  return message;
}

void ThorlabsApt::note_unasked(const Message& message) {
  if (message.id == kDisconnect) {
    throw StageError(options_.device + ": the controller says that it disconnects (0x0002)");
  }
  if (message.id == kResponse) {
    refusal_ = {.condition = Condition::Error, .code = kResponse, .text = "it reports an error"};
  } else if (message.id == kRichResponse && message.data.size() >= 4) {
    std::string words = message.data.substr(4);
    words.resize(std::min(words.find('\0'), words.size()));
    const unsigned about = half_at(message.data, 0);
    const int code = half_at(message.data, 2);
    refusal_ = {.condition = Condition::Error,
                .code = code,
                .text = "error " + std::to_string(code) + " about message " +
                        std::to_string(about) + ": " + printable(trimmed(words))};
  }
}

/// The answer of this unit's channel; others, such as errors that come unasked, are passed over.
/// @param size of its data at least
Message ThorlabsApt::ask(const Unit& unit, std::uint16_t question, std::uint16_t answer,
                         std::size_t size) {
  Connection& line = lines_[unit.line];
  collect();
  send(unit, question, unit.channel, 0);
  for (int i = 0; i < 64; ++i) {
    Message message = receive(line);
    note_unasked(message);
    if (is_answer(message, answer, size, unit)) return message;
  }
  line->refuse("64 other messages", "the answer among them");
}

bool ThorlabsApt::is_answer(const Message& message, std::uint16_t id, std::size_t size,
                            const Unit& unit) {
  if (message.id != id || message.source != unit.address) return false;
  if (message.data.size() < size) {
    lines_[unit.line]->refuse(message.data, std::to_string(size) + " bytes of data");
  }
  const unsigned channel = id == kInfo ? unit.channel
                           : size == 0 ? message.first
                                       : half_at(message.data, 0);
  return channel == unit.channel;
}

/// As the protocol's "USB interface" asks: pause, purge, pause, with RTS raised by the open line.
void ThorlabsApt::open_lines() {
  for (Connection& line : lines_) line.close();
  for (Connection& line : lines_) line.open();
  std::this_thread::sleep_for(kPurgePause);
  for (Connection& line : lines_) line->discard_input();
  std::this_thread::sleep_for(kPurgePause);
}

std::vector<Axis> ThorlabsApt::connect() {
  open_lines();
  refusal_ = {};
  not_taken_ = false;
  for (Unit& unit : units_) unit.answer_due = false;
  alive_ns_ = 0;
  axes_.clear();
  description_ = "Thorlabs";
  // Another program may have left them switched on; one would count as the answer behind a target.
  send_to_each(kStopUpdates);
  keep_alive();
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    describe(unit);
    Message mode = ask(unit, kRequestMode, kMode, 0);
    if (options_.switch_servo_on) {
      close_loop(unit);
      mode = ask(unit, kRequestMode, kMode, 0);
    }
    unit.travel_nm = half_at(ask(unit, kRequestTravel, kTravel, 4).data, 2) * kNmPerTravelCount;
    if (unit.travel_nm <= 0) {
      lines_[unit.line]->refuse("travel 0", "the travel of axis " + options_.axes[i] +
                                                ": is an actuator with its sensor connected?");
    }
    ask_status(unit);
    if ((unit.status & kZeroed) == 0) {
      description_ += "; axis " + options_.axes[i] + " was not zeroed since power-on";
    }
    axes.push_back({.name = options_.axes[i],
                    .min_nm = 0,
                    .max_nm = unit.travel_nm,
                    .resolution_nm = unit.travel_nm / kFullScale,
                    .closed_loop = mode.second == kClosedLoop || mode.second == kClosedLoopSmooth});
  }
  for (Connection& line : lines_) {
    if (!line->remark().empty()) description_ += "; " + line->remark();
  }
  axes_ = axes;
  return axes;
}

/// Serial number, eight letters of model, type, firmware as three bytes from the least on.
void ThorlabsApt::describe(const Unit& unit) {
  const std::string data = ask(unit, kRequestInfo, kInfo, 84).data;
  std::string model = data.substr(4, 8);
  model.resize(std::min(model.find('\0'), model.size()));
  const auto byte = [&data](std::size_t at) {
    return std::to_string(static_cast<unsigned char>(data[at]));
  };
  description_ += (description_ == "Thorlabs" ? " " : ", ") + printable(trimmed(model)) +
                  ", serial number " + std::to_string(word_at(data, 0)) + ", firmware " + byte(16) +
                  "." + byte(15) + "." + byte(14);
}

void ThorlabsApt::close_loop(const Unit& unit) {
  send(unit, kSetEnabled, unit.channel, 1);
  send(unit, kSetMode, unit.channel, kClosedLoop);
}

/// Volts, place and bits in one message. The place is signed: noise below 0 is no full travel.
void ThorlabsApt::ask_status(Unit& unit) {
  take_status(unit, ask(unit, kRequestStatus, kStatus, kStatusSize).data);
}

void ThorlabsApt::take_status(Unit& unit, const std::string& data) {
  const auto counts = static_cast<std::int16_t>(half_at(data, 4));
  unit.place_nm = counts / kFullScale * unit.travel_nm;
  unit.status = word_at(data, 6);
}

void ThorlabsApt::keep_alive() {
  const std::int64_t now_ns = monotonic_ns();
  if (alive_ns_ != 0 && now_ns - alive_ns_ < kKeepAliveNs) return;
  alive_ns_ = now_ns;
  send_to_each(kKeepAlive);
}

bool ThorlabsApt::move_to(std::span<const double> nm) {
  if (!are_targets(nm)) {
    refusal_ = not_a_number();
    return false;
  }
  collect();
  for (std::string& command : commands_) command.clear();
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (stays(nm[i])) continue;
    const Unit& unit = units_[i];
    const double counts = std::round(nm[i] / axes_.at(i).max_nm * kFullScale);
    if (counts < 0 || counts > kFullScale) {
      refusal_ = beyond_travel(axes_[i], nm[i]);
      return false;
    }
    std::string& command = commands_[unit.line];
    append_short(command, kSetPosition, 4, 0, unit.address | kDataFollows);
    append_half(command, unit.channel);
    append_half(command, static_cast<unsigned>(counts));
    append_short(command, kRequestStatus, unit.channel, 0, unit.address);
  }
  bool told = false;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (commands_[i].empty()) continue;
    if (std::exchange(told, true) && monotonic_ns() > expires_ns_)
      throw TooLate(
          "the units before take longer than a correction lives, and the next is not told");
    lines_[i]->write(commands_[i]);
    for (std::size_t j = 0; j < nm.size(); ++j)
      if (units_[j].line == i && !stays(nm[j])) units_[j].answer_due = true;
  }
  for (Connection& line : lines_) line->wait_until_sent();
  return true;
}

void ThorlabsApt::read(std::span<double> nm) {
  keep_alive();
  for (std::size_t i = 0; i < nm.size(); ++i) {
    ask_status(units_[i]);
    nm[i] = units_[i].place_nm;
  }
}

Health ThorlabsApt::health() {
  keep_alive();
  for (Unit& unit : units_) ask_status(unit);
  Health health;
  refusal_.move_into(health);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const std::uint32_t status = units_[i].status;
    if (follows(status)) continue;
    const bool is_zeroed = (status & kZeroing) != 0;
    const char* fault = is_zeroed                  ? " is being zeroed: it runs to 0 V"
                        : (status & kEnabled) == 0 ? " is not enabled"
                                                   : " is in open loop, where it ignores targets";
    add_axis_fault(health, {i, is_zeroed ? Condition::NotReferenced : Condition::ServoOff,
                            "axis " + options_.axes[i] + fault});
  }
  return health;
}

}  // namespace

std::unique_ptr<Stage> make_thorlabs_apt(const StageOptions& options) {
  return std::make_unique<ThorlabsApt>(options);
}

}  // namespace driftd::stage
