// SPDX-License-Identifier: MIT
#include "clients/stage/transport/serial_port.hpp"

// <termios.h> cannot name a speed such as 3,000,000; termios2 takes any, but lives in the kernel's
// own header, which the C library's cannot be included beside.
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/serial.h>
#include <linux/tty_flags.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace driftd::stage {

namespace {

std::string reason(int error) {
  return std::system_category().message(error);
}

void take_alone(int fd, const std::string& path) {
  // TIOCEXCL stops other programs but root's; the lock stops a second driver of ours as root, too.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    throw StageError(path + ": another program has locked it; expected a free serial line");
  }
  if (::ioctl(fd, TIOCEXCL) != 0) {
    throw StageError(path + ": cannot be taken alone (" + reason(errno) + ")");
  }
}

void set_line(int fd, const std::string& path, const SerialSettings& settings) {
  termios2 line{};
  if (::ioctl(fd, TCGETS2, &line) != 0) {
    throw StageError(path + ": is not a serial line (" + reason(errno) + ")");
  }
  line.c_iflag = 0;
  line.c_oflag = 0;
  line.c_lflag = 0;
  // HUPCL would drop DTR at close, which resets some controllers.
  line.c_cflag = CS8 | CREAD | CLOCAL | BOTHER;
  if (settings.rts_cts) line.c_cflag |= CRTSCTS;
  line.c_ispeed = static_cast<speed_t>(settings.baud);
  line.c_ospeed = static_cast<speed_t>(settings.baud);
  line.c_cc[VMIN] = 1;
  line.c_cc[VTIME] = 0;
  if (::ioctl(fd, TCSETS2, &line) != 0) {
    throw StageError(path + ": cannot be set to " + std::to_string(settings.baud) + " baud 8N1 (" +
                     reason(errno) + ")");
  }
  termios2 set{};
  if (::ioctl(fd, TCGETS2, &set) != 0) throw StageError(path + ": gone (" + reason(errno) + ")");
  // A UART bears 3 % of difference; an adapter that cannot do the speed offers another one.
  const double ratio = static_cast<double>(set.c_ospeed) / settings.baud;
  if (ratio < 0.97 || ratio > 1.03) {
    throw StageError(path + ": runs at " + std::to_string(set.c_ospeed) + " baud, expected " +
                     std::to_string(settings.baud));
  }
}

std::string terminal_name(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::canonical(path, ignored);
  return real.filename().string();
}

}  // namespace

std::string shorten_latency(int fd, const std::string& terminal,
                            const std::filesystem::path& terminals) {
  const std::filesystem::path file = terminals / terminal / "device" / "latency_timer";
  const auto milliseconds = [&file] {
    int value = 0;
    std::ifstream(file) >> value;
    return value;
  };
  if (std::error_code none; !std::filesystem::exists(file, none)) return {};
  // Any user who may open the line may ask for low latency; ftdi_sio then sets its timer to 1 ms.
  serial_struct serial{};
  if (::ioctl(fd, TIOCGSERIAL, &serial) == 0) {
    serial.flags = static_cast<int>(static_cast<unsigned>(serial.flags) | ASYNC_LOW_LATENCY);
    ::ioctl(fd, TIOCSSERIAL, &serial);
  }
  if (milliseconds() == 1) return {};
  std::ofstream(file) << "1\n";
  const int left = milliseconds();
  if (left == 1) return {};
  return "the USB adapter holds answers back for up to " + std::to_string(left) +
         " ms: write 1 to " + file.string() + " as root";
}

ByteStream open_serial(const std::string& path, const SerialSettings& settings) {
  const int fd = ::open(path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) throw StageError(path + ": cannot be opened (" + reason(errno) + ")");
  ByteStream stream(fd, ByteStream::Kind::Terminal, path, settings.timeout_ms);
  take_alone(fd, path);
  set_line(fd, path, settings);
  stream.set_remark(shorten_latency(fd, terminal_name(path), "/sys/class/tty"));
  stream.set_bytes_per_second(settings.baud / 10.0);  // a start and a stop bit around each byte
  ::ioctl(fd, TCFLSH, TCIOFLUSH);
  return stream;
}

}  // namespace driftd::stage
