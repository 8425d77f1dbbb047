// SPDX-License-Identifier: MIT
// nPoint LC.400: little-endian reads and writes of single 32-bit words of its memory, each ended by
// 0x55. By its USB's kernel serial line at 3 Mbaud or its serial line at 230400. Facts and their
// sources: frames: EPICS motorNPoint nPointApp/src/LC400MotorDriver.cpp (readSingle, writeSingle);
// addresses: LC400MemoryAddr.h there and Micro-Manager DeviceAdapters/nPoint/nPC400Ctrl.cpp,
// nPC400Channel.cpp; scale: getPosition() of the former, 1048574 counts for the range, 0 in its
// middle; speeds: iocBoot/iocNPoint/LC400.cmd.
//
// Nothing is answered to a write and no error register is known: behind the targets of a move goes
// the question for one of them, in turns. Its answer, collected before anything else is sent, says
// that the controller has dealt with both and has kept this one; health() reads both back.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "clients/stage/backends/backends.hpp"
#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/transport/connection.hpp"

namespace driftd::stage {

namespace {

constexpr char kRead = static_cast<char>(0xA0);
constexpr char kWrite = static_cast<char>(0xA2);
constexpr char kEnd = 0x55;
constexpr std::uint32_t kFirmware = 0x11830028;  ///< five words of text
constexpr std::uint32_t kChannels = 0x118303A0;  ///< a bit for each of six; 0: there
constexpr std::uint32_t kFirstChannel = 0x11831000;
constexpr std::uint32_t kChannelStride = 0x1000;
constexpr std::uint32_t kRangeUnit = 0x044;
constexpr std::uint32_t kRange = 0x078;
constexpr std::uint32_t kServo = 0x084;
constexpr std::uint32_t kWaveformActive = 0x208;
constexpr std::uint32_t kTarget = 0x218;
constexpr std::uint32_t kPosition = 0x334;
constexpr double kCountsOfRange = 1048574;
constexpr std::int32_t kMostCounts = 524287;

void append_word(std::string& bytes, std::uint32_t word) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>(static_cast<unsigned char>(word >> shift));
  }
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (unsigned i = 0; i < 4; ++i) {
    word |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return word;
}

void append_write(std::string& bytes, std::uint32_t address, std::int32_t value) {
  bytes += kWrite;
  append_word(bytes, address);
  append_word(bytes, static_cast<std::uint32_t>(value));
  bytes += kEnd;
}

struct Channel {
  std::uint32_t base = 0;
  double nm_per_count = 1;
  std::int32_t target = 0;  ///< last written
  bool written = false;
};

std::string question_for(std::uint32_t address) {
  std::string question(1, kRead);
  append_word(question, address);
  question += kEnd;
  return question;
}

std::string target_text(const std::string& name, const Channel& channel, std::int32_t target) {
  return "channel " + name + " has target " + text_nm(target * channel.nm_per_count) +
         ", expected " + text_nm(channel.target * channel.nm_per_count);
}

class Lc400 final : public Stage {
 public:
  explicit Lc400(const StageOptions& options)
      : options_(options), line_(options.device, options.baud, false, options.timeout_ms) {
    for (const std::string& axis : options.axes) {
      if (axis.size() != 1 || axis[0] < '1' || axis[0] > '6') {
        throw std::invalid_argument("axis '" + axis + "' is no LC.400 channel, expected 1 to 6");
      }
      const auto number = static_cast<std::uint32_t>(axis[0] - '1');
      channels_.push_back({.base = kFirstChannel + number * kChannelStride});
    }
  }

  std::vector<Axis> connect() override;
  void disconnect() noexcept override { line_.drop(); }
  std::string description() const override { return description_; }
  bool prepare() override;
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  Health health() override;

 private:
  void collect();
  std::int32_t answer(std::uint32_t address);
  std::int32_t read_word(std::uint32_t address);
  void greet();
  Axis ask_axis(std::size_t i);
  double range_nm(std::size_t i);

  StageOptions options_;
  Connection line_;
  std::vector<Channel> channels_;
  std::vector<Axis> axes_;
  std::string description_;
  std::string command_;
  std::size_t asked_ = 0;    ///< the channel whose target is read back behind a move
  bool answer_due_ = false;  ///< of that
  Refusal refusal_;
  bool not_taken_ = false;  ///< the last move, until prepare() has told it
};

std::int32_t Lc400::read_word(std::uint32_t address) {
  collect();
  line_->write(question_for(address));
  return answer(address);
}

/// The answer to the question behind the last move.
void Lc400::collect() {
  if (!std::exchange(answer_due_, false)) return;
  Channel& channel = channels_[asked_];
  const std::int32_t target = answer(channel.base + kTarget);
  if (target == channel.target) return;
  not_taken_ = true;
  refusal_ = {.condition = Condition::Error,
              .code = 0,
              .text = target_text(options_.axes[asked_], channel, target)};
}

bool Lc400::prepare() {
  collect();
  return !std::exchange(not_taken_, false);
}

std::int32_t Lc400::answer(std::uint32_t address) {
  const std::string question = question_for(address);
  const std::string expected = printable(question.substr(0, 5)) + ", a word and \\x55";
  const std::string answer = line_->read_exactly(10, expected);
  if (answer.compare(0, 5, question, 0, 5) != 0 || answer.back() != kEnd) {
    line_->refuse(answer, expected);
  }
  return static_cast<std::int32_t>(word_at(answer, 5));
}

std::vector<Axis> Lc400::connect() {
  line_.open();
  refusal_ = {};
  answer_due_ = not_taken_ = false;
  axes_.clear();
  greet();
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < channels_.size(); ++i) axes.push_back(ask_axis(i));
  axes_ = axes;
  return axes;
}

void Lc400::greet() {
  std::int32_t absent = 0;
  try {
    absent = read_word(kChannels);
  } catch (const NoAnswer&) {  // a cut frame of an earlier program may have stood before ours
    try {
      line_->discard_input();
      absent = read_word(kChannels);
    } catch (const NoAnswer& error) {
      throw StageError(std::string(error.what()) + "; the line is set to " +
                       std::to_string(options_.baud) +
                       " baud, an LC.400 has 3000000 by USB and 230400 by its serial line");
    }
  }
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    const auto bit = 1U << ((channels_[i].base - kFirstChannel) / kChannelStride);
    if ((static_cast<std::uint32_t>(absent) & bit) != 0) {
      line_->refuse(
          "channels " + std::to_string(~static_cast<std::uint32_t>(absent) & 0x3fU) + " (bits)",
          "channel " + options_.axes[i] + " among them");
    }
  }
  std::string firmware;
  for (std::uint32_t i = 0; i < 5; ++i) {
    append_word(firmware, static_cast<std::uint32_t>(read_word(kFirmware + 4 * i)));
  }
  firmware.resize(std::min(firmware.find('\0'), firmware.size()));
  description_ = "nPoint LC.400, firmware " + printable(firmware);
  if (!line_->remark().empty()) description_ += "; " + line_->remark();
}

double Lc400::range_nm(std::size_t i) {
  const std::int32_t range = read_word(channels_[i].base + kRange);
  const std::int32_t unit = read_word(channels_[i].base + kRangeUnit);
  if (range <= 0) {
    line_->refuse(std::to_string(range), "the range of channel " + options_.axes[i]);
  }
  // Micro-Manager takes the unit for a digit in ASCII, EPICS for a number.
  switch (unit) {
    case 0:
    case '0':
      return range * 1e3;
    case 1:
    case '1':
      return range * 1e6;
    default:
      line_->refuse("unit " + std::to_string(unit),
                    "0 (um) or 1 (mm) as the unit of channel " + options_.axes[i]);
  }
}

Axis Lc400::ask_axis(std::size_t i) {
  Channel& channel = channels_[i];
  const double range = range_nm(i);
  channel.nm_per_count = range / kCountsOfRange;
  channel.written = false;
  std::int32_t servo = read_word(channel.base + kServo);
  if (servo == 0 && options_.switch_servo_on) {
    std::string command;
    append_write(command, channel.base + kServo, 1);
    line_->write(command);
    servo = read_word(channel.base + kServo);
  }
  return {.name = options_.axes[i],
          .min_nm = -range / 2,
          .max_nm = range / 2,
          .resolution_nm = channel.nm_per_count,
          .closed_loop = servo != 0};
}

bool Lc400::move_to(std::span<const double> nm) {
  if (!are_targets(nm)) {
    refusal_ = not_a_number();
    return false;
  }
  collect();
  command_.clear();
  std::array<std::int32_t, 6> counts{};
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (stays(nm[i])) continue;
    const double wanted = std::round(nm[i] / channels_[i].nm_per_count);
    if (std::abs(wanted) > kMostCounts) {
      refusal_ = beyond_travel(axes_.at(i), nm[i]);
      return false;
    }
    counts[i] = static_cast<std::int32_t>(wanted);
    append_write(command_, channels_[i].base + kTarget, counts[i]);
  }
  do asked_ = (asked_ + 1) % channels_.size();
  while (asked_ < nm.size() && stays(nm[asked_]));
  command_ += question_for(channels_[asked_].base + kTarget);
  line_->write(command_);
  answer_due_ = true;
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (stays(nm[i])) continue;
    channels_[i].target = counts[i];
    channels_[i].written = true;
  }
  line_->wait_until_sent();
  return true;
}

void Lc400::read(std::span<double> nm) {
  for (std::size_t i = 0; i < nm.size(); ++i) {
    nm[i] = read_word(channels_[i].base + kPosition) * channels_[i].nm_per_count;
  }
}

/// A target that another has written, or that a power cycle lost, is told once: nothing that is
/// sent from here on would set it right.
Health Lc400::health() {
  Health health;
  bool any_off = false;
  refusal_.move_into(health);
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Channel& channel = channels_[i];
    const std::string& name = options_.axes[i];
    const bool servo_off = read_word(channel.base + kServo) == 0;
    if (servo_off) {
      add_axis_fault(health, {i, Condition::ServoOff, "the servo of channel " + name + " is off"});
    }
    if (read_word(channel.base + kWaveformActive) != 0) {
      add_axis_fault(health, {i, Condition::Error, "a waveform moves channel " + name});
    }
    const std::int32_t target = read_word(channel.base + kTarget);
    if (channel.written && target != channel.target) {
      add_axis_fault(health, {i, Condition::Error, target_text(name, channel, target)});
      channel.written = false;
    }
    if (servo_off) channel.written = false;
    any_off = any_off || servo_off;
  }
  if (any_off) add_hint(health, kServoHint);
  return health;
}

}  // namespace

std::unique_ptr<Stage> make_lc400(const StageOptions& options) {
  return std::make_unique<Lc400>(options);
}

}  // namespace driftd::stage
