// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): what is POSIX's in it
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <filesystem>
#include <fstream>

#include "base/monotonic.hpp"
#include "clients/stage/transport/numbers.hpp"
#include "clients/stage/transport/open_stream.hpp"
#include "clients/stage/transport/serial_port.hpp"
#include "clients/stage/transport/tcp.hpp"
#include "support/catch.hpp"
#include "unit/clients/stage_backends/scripted_peer.hpp"

using namespace driftd::stage;
using driftd::stage::test::Script;
using driftd::stage::test::ScriptedPeer;
using Over = ScriptedPeer::Over;

namespace {

std::string fixed(double value, int digits) {
  std::string text;
  append_fixed(text, value, digits);
  return text;
}

std::int64_t now_ms() {
  return driftd::monotonic_ns() / 1'000'000;
}

}  // namespace

TEST_CASE("numbers are written with a point and never as minus nothing") {
  CHECK(fixed(50.1, 4) == "50.1000");
  CHECK(fixed(-0.00004, 4) == "0.0000");
  CHECK(fixed(-0.00006, 4) == "-0.0001");
  CHECK(fixed(-12.5, 1) == "-12.5");
  CHECK(fixed(123456.789, 2) == "123456.79");
  if (std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr) {  // where it is installed
    CHECK(fixed(1.5, 1) == "1.5");
    CHECK(parse_number("1.5") == 1.5);
    std::setlocale(LC_NUMERIC, "C");
  }
}

TEST_CASE("a number is all of the text or none") {
  CHECK(parse_number(" +12.5 ") == 12.5);
  CHECK(parse_number("-3e2") == -300);
  CHECK(parse_whole(" -4") == -4);
  CHECK(parse_whole("2147483647") == 2147483647);
  for (const char* text : {"2147483648", "-2147483649", "1e300", "-1e300", "1.5", "x", ""}) {
    INFO(text);
    CHECK_FALSE(parse_whole(text));
  }
  for (const char* text : {"", " ", "1,5", "1.5x", "+-1", "nan", "inf", "0x10", "--1", "1e10"}) {
    INFO(text);
    CHECK_FALSE(parse_number(text));
  }
}

TEST_CASE("a device is an address or a path") {
  CHECK_NOTHROW(check_device("tcp://127.0.0.1:50000", 0));
  CHECK_NOTHROW(check_device("tcp://[::1]:50000", 0));
  CHECK_NOTHROW(check_device("/dev/ttyUSB0", 3'000'000));
  for (const char* device : {"tcp://host", "tcp://:5", "tcp://h:0", "tcp://h:70000", "tcp://h:5x",
                             "tcp://::1:5", "COM3", "", "ttyUSB0"}) {
    INFO(device);
    CHECK_THROWS_AS(check_device(device, 115200), std::invalid_argument);
  }
  CHECK_THROWS_WITH(check_device("/dev/ttyUSB0", 0), contains("baud is 0, expected 300"));
  CHECK(parse_tcp_address("[::1]:7").host == "::1");
}

TEST_CASE("lines and counted bytes are read by TCP and by a serial line") {
  const Over over = GENERATE(Over::Tcp, Over::Pty);
  ScriptedPeer peer(over, {{{.expect = "ask\n", .answer = "one \ntwo\r\n\x01\x0d\x0a\x03"}}});
  ByteStream stream = open_stream(peer.device(), 230400, false, 1000);
  stream.write("ask\n");
  CHECK(stream.read_line('\n', "a line") == "one ");
  CHECK(stream.read_line('\n', "a line") == "two");
  CHECK(stream.read_exactly(4, "4 bytes") == "\x01\x0d\x0a\x03");  // raw: CR stays CR
  CHECK_FALSE(stream.input_waiting());
  CHECK(peer.problem().empty());
}

TEST_CASE("an answer in slow bytes is whole, one slower than the time limit is none") {
  ScriptedPeer peer(Over::Tcp, {{{.expect = "a\n", .answer = "slow\n", .gap_ms = 10},
                                 {.expect = "b\n", .answer = "far too slow\n", .gap_ms = 200}}});
  ByteStream stream = open_stream(peer.device(), 0, false, 1000);
  stream.write("a\n");
  CHECK(stream.read_line('\n', "a word") == "slow");
  stream.write("b\n");
  const std::int64_t before_ms = now_ms();
  CHECK_THROWS_WITH(stream.read_line('\n', "a word"),
                    contains("no whole answer to 'b\\n' within 1000 ms: found 'f") &&
                        contains("expected a word"));
  CHECK(now_ms() - before_ms < 2000);  // each byte does not start the time anew
  CHECK_THROWS_WITH(stream.write("c\n"), contains("expected to be connected again"));
}

TEST_CASE("an answer that does not end is an error before the time is up") {
  ScriptedPeer peer(Over::Tcp, {{{.expect = "a\n", .answer = std::string(9000, 'x')}}});
  ByteStream stream = open_stream(peer.device(), 0, false, 5000);
  stream.write("a\n");
  CHECK_THROWS_WITH(stream.read_line('\n', "a word"), contains("does not end: found"));
}

TEST_CASE("a line closed in the middle of an answer is told with what had come") {
  const Over over = GENERATE(Over::Tcp, Over::Pty);
  ScriptedPeer peer(over, {{{.expect = "a\n", .answer = "ha", .hang_up = true}}});
  ByteStream stream = open_stream(peer.device(), 115200, false, 1000);
  stream.write("a\n");
  try {
    (void)stream.read_line('\n', "half");
    FAIL("read a line");
  } catch (const StageError& error) {
    const std::string text = error.what();
    CHECK(text.starts_with(peer.device() + ": the "));
    CHECK_THAT(text, contains("last asked 'a\\n'"));
    // The kernel may drop the last bytes of a pseudo-terminal that were not read.
    if (over == Over::Tcp) CHECK_THAT(text, contains("found 'ha' before"));
  }
}

TEST_CASE("nobody there, a host without a name and a path that is no line are told apart") {
  std::string gone;
  {
    ScriptedPeer peer(Over::Tcp, {});
    gone = peer.device();
  }
  CHECK_THROWS_WITH(open_stream(gone, 0, false, 200),
                    contains(gone + ": cannot connect (Connection refused)"));
  CHECK_THROWS_WITH(open_stream("/dev/driftd-none", 9600, false, 200),
                    contains("/dev/driftd-none: cannot be opened (No such file"));
  CHECK_THROWS_WITH(open_stream("/dev/null", 9600, false, 200), contains("/dev/null: "));
}

TEST_CASE("a serial line has the speed asked for and one owner at a time") {
  ScriptedPeer peer(Over::Pty, {{}, {}});
  for (const int baud : {3'000'000, 230'400, 38'400}) {
    const ByteStream stream = open_stream(peer.device(), baud, true, 100);
    CHECK(peer.baud() == static_cast<unsigned>(baud));
    CHECK_THROWS_WITH(open_stream(peer.device(), baud, false, 100),
                      contains("expected a free serial line") || contains("cannot be opened"));
  }
}

TEST_CASE("a serial line is given back though another program holds it open, too") {
  ScriptedPeer peer(Over::Pty, {{}});
  const int held = ::open(peer.device().c_str(), O_RDWR | O_NOCTTY);
  REQUIRE(held >= 0);
  int exclusive = 0;
  {
    const ByteStream stream = open_stream(peer.device(), 115200, false, 100);
    REQUIRE(::ioctl(held, TIOCGEXCL, &exclusive) == 0);
    CHECK(exclusive == 1);
  }
  REQUIRE(::ioctl(held, TIOCGEXCL, &exclusive) == 0);
  CHECK(exclusive == 0);
  ::close(held);
}

TEST_CASE("a serial line is waited for until it has passed on what was written") {
  ScriptedPeer peer(Over::Pty, {{{.expect = std::string(960, 'x')}}});
  ByteStream stream = open_stream(peer.device(), 9600, false, 1000);
  const std::int64_t before_ms = now_ms();
  stream.write(std::string(480, 'x'));
  stream.write(std::string(480, 'x'));
  CHECK(now_ms() - before_ms < 900);
  stream.wait_until_sent();  // 960 bytes of 10 bits: 1 s
  CHECK(now_ms() - before_ms >= 999);
  const std::int64_t sent_ms = now_ms();
  stream.wait_until_sent();
  CHECK(now_ms() - sent_ms < 900);
  CHECK(peer.problem().empty());
}

TEST_CASE("what a controller has not got when its line failed does not reach it later") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* generic = reinterpret_cast<sockaddr*>(&at);
  REQUIRE(::bind(listener, generic, size) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  REQUIRE(::getsockname(listener, generic, &size) == 0);
  const bool failed = GENERATE(true, false);
  int peer = -1;
  {
    ByteStream stream =
        open_stream("tcp://127.0.0.1:" + std::to_string(ntohs(at.sin_port)), 0, false, 50);
    peer = ::accept(listener, nullptr, nullptr);
    stream.write("POS?\n");
    if (failed) CHECK_THROWS_AS(stream.read_line('\n', "a place"), NoAnswer);
  }
  std::array<char, 64> bytes{};
  ssize_t count = 1;
  while (count > 0) count = ::read(peer, bytes.data(), bytes.size());
  // Reset: the kernel keeps nothing to send again. Else the end comes after all that was written.
  CHECK(count == (failed ? -1 : 0));
  if (failed) CHECK(errno == ECONNRESET);
  ::close(peer);
  ::close(listener);
}

TEST_CASE("a serial line that does not take its bytes drops them") {
  const int peer = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(peer >= 0);
  REQUIRE((::grantpt(peer) == 0 && ::unlockpt(peer) == 0));
  std::array<char, 64> name{};
  REQUIRE(::ptsname_r(peer, name.data(), name.size()) == 0);
  const auto left = [peer] {
    std::array<char, 4096> bytes{};
    std::size_t all = 0;
    for (ssize_t count = 1; count > 0; all += count > 0 ? static_cast<std::size_t>(count) : 0) {
      count = ::read(peer, bytes.data(), bytes.size());
      pollfd watched{.fd = peer, .events = POLLIN, .revents = 0};
      if (count < 0 && ::poll(&watched, 1, 50) == 1 && (watched.revents & POLLIN) != 0) count = 1;
    }
    return all;
  };
  const int held = ::open(name.data(), O_RDWR | O_NOCTTY);  // the line is never quite closed
  const std::string targets(200'000, 'M');
  constexpr std::size_t kWithThePeer = 8192;  // has arrived in its own buffer
  ByteStream stream = open_stream(name.data(), 3'000'000, false, 100);
  CHECK_THROWS_WITH(stream.write(targets), contains("does not take"));
  CHECK(left() <= kWithThePeer);
  ::close(held);
  ::close(peer);
}

TEST_CASE("what came before the connection is dropped") {
  ScriptedPeer peer(
      Over::Pty, {{{.expect = {}, .answer = "stale\n"}, {.expect = "a\n", .answer = "fresh\n"}}});
  ByteStream stream = open_stream(peer.device(), 115200, false, 5000);
  stream.write("a\n");
  CHECK(stream.read_line('\n', "a word") == "fresh");
}

TEST_CASE("an FTDI adapter's latency timer is set to 1 ms, or it is said how to") {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("driftd-tty-" + std::to_string(now_ms()));
  const std::filesystem::path device = root / "ttyUSB7" / "device";
  std::filesystem::create_directories(device);
  CHECK(shorten_latency(-1, "ttyS0", root).empty());  // no such timer: no FTDI adapter
  std::ofstream(device / "latency_timer") << "16\n";
  CHECK(shorten_latency(-1, "ttyUSB7", root).empty());
  int value = 0;
  std::ifstream(device / "latency_timer") >> value;
  CHECK(value == 1);
  // A file that cannot be written: root may write any file, so a directory stands for it.
  std::filesystem::remove(device / "latency_timer");
  std::filesystem::create_directory(device / "latency_timer");
  CHECK_THAT(shorten_latency(-1, "ttyUSB7", root), contains("latency_timer as root"));
  std::filesystem::remove_all(root);
}

TEST_CASE("a TCP connection has no Nagle delay") {
  ScriptedPeer peer(Over::Tcp, {{}});
  const ByteStream stream = open_stream(peer.device(), 0, false, 1000);
  int on = 0;
  socklen_t size = sizeof(on);
  REQUIRE(::getsockopt(stream.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, &size) == 0);
  CHECK(on != 0);
}

TEST_CASE("a TCP connection that nobody acknowledges ends within half a second") {
  ScriptedPeer peer(Over::Tcp, {{}});
  const ByteStream stream = open_stream(peer.device(), 0, false, 1000);
  unsigned milliseconds = 0;
  socklen_t size = sizeof(milliseconds);
  REQUIRE(::getsockopt(stream.descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &size) ==
          0);
  CHECK(milliseconds == 500);
}

TEST_CASE("a peer that waits for acknowledgements gets them at once") {
  constexpr int kAnswers = 50;
  // The peer writes each byte alone, with Nagle's delay.
  ScriptedPeer peer(Over::Tcp, {Script(kAnswers, {.expect = "a\n", .answer = "Ok\n"})});
  ByteStream stream = open_stream(peer.device(), 0, false, 10'000);
  std::vector<std::int64_t> took_ms;
  for (int i = 0; i < kAnswers; ++i) {
    const std::int64_t before_ms = now_ms();
    stream.write("a\n");
    CHECK(stream.read_line('\n', "Ok") == "Ok");
    took_ms.push_back(now_ms() - before_ms);
  }
  // Late acknowledgements take 40 ms each, a busy machine delays some.
  std::sort(took_ms.begin(), took_ms.end());
  CHECK(took_ms[kAnswers / 4] < 30);
}

TEST_CASE("a line that is dropped takes what has not left with it") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* generic = reinterpret_cast<sockaddr*>(&at);
  REQUIRE(::bind(listener, generic, size) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  REQUIRE(::getsockname(listener, generic, &size) == 0);
  ByteStream line =
      connect_tcp({.host = "127.0.0.1", .port = std::to_string(ntohs(at.sin_port))}, 10'000);
  const int peer = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  REQUIRE(peer >= 0);
  line.drop();
  char byte = 0;
  CHECK(::read(peer, &byte, 1) == -1);
  CHECK(errno == ECONNRESET);
  CHECK_THROWS_WITH(line.write("MOV"), contains("expected to be connected again"));
  ::close(peer);
  ::close(listener);
}
