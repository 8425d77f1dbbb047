// SPDX-License-Identifier: MIT
// What a stage's controller answers: the first byte chooses the controller, the rest are its
// answers, one to each write, apart by 0x1e. After the last the line is closed. The program is
// linked with --wrap for the calls below, by which the answers come without a second thread and
// nothing is waited for.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <ctime>
#include <utility>

#include <poll.h>

#include "clients/stage/interface/stage.hpp"
#include "clients/stage/transport/open_stream.hpp"
#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {
namespace {

constexpr char kNextAnswer = 0x1e;

/// The other end of the line.
class Controller {
 public:
  void hold(std::string_view answers) {
    answers_ = split(answers, kNextAnswer, 200);
    next_ = 0;
  }
  /// The driver's end of a new line; the old one is closed.
  int connect() {
    hang_up();
    std::array<int, 2> ends{};
    const int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    require(socketpair(AF_UNIX, kind, 0, ends.data()) == 0, "a line can be made");
    mine_ = ends[1];
    return theirs_ = ends[0];
  }
  void hang_up() {
    if (mine_ >= 0) close(std::exchange(mine_, -1));
  }
  bool is_at(int descriptor) const { return descriptor == theirs_ && mine_ >= 0; }
  void answer() {
    if (next_ >= answers_.size()) return hang_up();
    const std::string& answer = answers_[next_++];
    if (!answer.empty() && write(mine_, answer.data(), answer.size()) < 0) hang_up();
  }

 private:
  std::vector<std::string> answers_;
  std::size_t next_ = 0;
  int mine_ = -1, theirs_ = -1;
};

Controller& controller() {
  static Controller controller;
  return controller;
}

struct Kind {
  const char* driver;
  std::array<const char*, 2> axes;
  const char* device = "tcp://fuzz:1";
};
constexpr std::array kKinds{Kind{"pi_gcs2", {"1", "2"}},
                            Kind{"lc400", {"1", "3"}},
                            Kind{"asi", {"X", "Y"}},
                            Kind{"piezoconcept", {"X", "Y"}},
                            Kind{"thorlabs_apt", {"bay1", "bay2"}},
                            Kind{"program", {"1", "2"}, "unix:/fuzz"}};

void check_text(const std::string& text) {
  require(text.size() < 4000, "a text is a sentence", text);
}

void check_axes(const std::vector<stage::Axis>& axes) {
  require(axes.size() == 2, "each axis is told of");
  for (const stage::Axis& axis : axes) {
    require(std::isfinite(axis.min_nm) && std::isfinite(axis.max_nm) && axis.min_nm <= axis.max_nm,
            "an axis has a travel", axis.name);
    require(std::isfinite(axis.resolution_nm) && axis.resolution_nm >= 0, "an axis has a step",
            axis.name);
  }
}

void check_health(const stage::Health& health) {
  check_text(health.text);
  require((health.condition == stage::Condition::Ready) || !health.text.empty(),
          "what is wrong is told");
}

/// As the driver does it: moves, with a look at the place and the health now and then.
void drive(stage::Stage& stage) {
  check_axes(stage.connect());
  check_text(stage.description());
  for (int i = 0; i < 4; ++i) {
    std::array<double, 2> place_nm{std::nan(""), std::nan("")};
    stage.read(place_nm);
    require(std::isfinite(place_nm[0]) && std::isfinite(place_nm[1]), "a place is a number");
    check_health(stage.health());
    const std::array<double, 2> target_nm{1000.0 * i, 2000.5};
    try {
      stage.move_to(target_nm);
    } catch (const stage::TooLate&) {  // as a program may say
    }
    stage.prepare();
  }
  check_health(stage.health());
}

}  // namespace

void controllers(Bytes bytes) {
  Choices choices(bytes);
  const auto head = choices.take<std::uint8_t>();
  const Kind& kind = kKinds[head % kKinds.size()];
  controller().hold(text_of(choices.rest()));
  stage::StageOptions options;
  options.driver = kind.driver;
  options.device = kind.device;
  options.axes = {kind.axes[0], kind.axes[1]};
  options.switch_servo_on = head >= 128;
  options.timeout_ms = 10;
  const auto stage = stage::make_stage(options);
  for (int connection = 0; connection < 2; ++connection) {
    try {
      drive(*stage);
    } catch (const stage::StageError& error) {
      require(error.what()[0] != '\0', "a failure says something");
      check_text(error.what());
    }
    stage->disconnect();
  }
  controller().hang_up();
}

}  // namespace driftd::fuzz

namespace driftd::stage {

// In the place of transport/open_stream.cpp.
void check_device(const std::string&, int) {}
ByteStream open_stream(const std::string& device, int, bool, int timeout_ms) {
  return {fuzz::controller().connect(), ByteStream::Kind::Socket, device, timeout_ms};
}

}  // namespace driftd::stage

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names
extern "C" {

ssize_t __real_send(int, const void*, std::size_t, int);
ssize_t __wrap_send(int descriptor, const void* data, std::size_t size, int flags) {
  if (!driftd::fuzz::controller().is_at(descriptor))
    return __real_send(descriptor, data, size, flags);
  driftd::fuzz::controller().answer();
  return static_cast<ssize_t>(size);
}

/// What is not there will not come.
int __real_ppoll(pollfd*, nfds_t, const timespec*, const sigset_t*);
int __wrap_ppoll(pollfd* watched, nfds_t count, const timespec*, const sigset_t* mask) {
  const timespec now{};
  return __real_ppoll(watched, count, &now, mask);
}

int __wrap_nanosleep(const timespec*, timespec*) {
  return 0;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
