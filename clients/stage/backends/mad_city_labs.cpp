// SPDX-License-Identifier: MIT
// Mad City Labs' Nano-Drive through the vendor's library. Facts and their sources: functions, codes
// and the layout of ProductInformation: Micro-Manager DeviceAdapters/MCL_NanoDrive/Madlib.h; axes
// 1 to 4, positions in um, one axis a call: pystxmcontrol drivers/mclController.py.
//
// There is no on-target, servo or error query. A position read that is a negative whole number is
// an error code; other negative numbers are noise around 0.
#include <array>
#include <cmath>
#include <stdexcept>

#include "clients/stage/backends/refusal.hpp"
#include "clients/stage/backends/vendor_library.hpp"

namespace driftd::stage {

namespace {

constexpr double kNmPerUm = 1e3;
constexpr int kDeviceError = -2;
constexpr int kNotAttached = -3;
constexpr int kNotReady = -5;
constexpr int kArgument = -6;
constexpr int kInvalidHandle = -8;
constexpr int kAttachedWithinMs = 0;

constexpr std::array<const char*, 12> kErrors{
    "success",        "general error",  "device error",       "the controller is not attached",
    "usage error",    "not ready",      "argument error",     "invalid axis",
    "invalid handle", "invalid driver", "sequence not valid", "blocked by TIRF lock"};

std::string error_text(int code) {
  const auto index = static_cast<std::size_t>(-code);
  const char* words = code <= 0 && index < kErrors.size() ? kErrors[index] : "unknown error";
  return "MCL error " + std::to_string(code) + ": " + words;
}

#pragma pack(push, 1)
struct ProductInformation {
  unsigned char axis_bitmap;
  short adc_bits;
  short dac_bits;
  short product_id;
  short firmware_version;
  short firmware_profile;
};
#pragma pack(pop)
static_assert(sizeof(ProductInformation) == 11);

/// X=1, Y=2, Z=3, the fourth as AUX; 0 for anything else.
unsigned axis_number(const std::string& name) {
  constexpr std::array<const char*, 4> kNames{"X", "Y", "Z", "AUX"};
  for (unsigned i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i] || name == std::to_string(i + 1)) return i + 1;
  }
  return 0;
}

struct Functions {
  int (*init_handle)() = nullptr;
  int (*grab_all_handles)() = nullptr;
  int (*get_all_handles)(int*, int) = nullptr;
  void (*release_handle)(int) = nullptr;
  int (*serial_number)(int) = nullptr;
  int (*product_info)(ProductInformation*, int) = nullptr;
  double (*calibration)(unsigned, int) = nullptr;
  double (*read)(unsigned, int) = nullptr;
  int (*write)(double, unsigned, int) = nullptr;
  bool (*attached)(int, int) = nullptr;  ///< may be missing
};

class MadCityLabs final : public Stage {
 public:
  MadCityLabs(const StageOptions& options, std::shared_ptr<const SharedLibrary> library);
  ~MadCityLabs() override { release(); }
  MadCityLabs(const MadCityLabs&) = delete;
  MadCityLabs& operator=(const MadCityLabs&) = delete;

  std::vector<Axis> connect() override;
  std::string description() const override { return description_; }
  bool move_to(std::span<const double> nm) override;
  void read(std::span<double> nm) override;
  Health health() override;

 private:
  int handle_of_serial(int serial);
  void open();
  void release();
  double checked(double value, const std::string& what) const;
  [[noreturn]] void fail(const std::string& text) const {
    throw StageError("library " + library_->file() + ": " + text);
  }

  StageOptions options_;
  std::shared_ptr<const SharedLibrary> library_;
  Functions mcl_;
  int handle_ = 0;
  std::vector<unsigned> numbers_;
  std::vector<Axis> axes_;
  std::string description_;
  Refusal refusal_;
};

MadCityLabs::MadCityLabs(const StageOptions& options, std::shared_ptr<const SharedLibrary> library)
    : options_(options), library_(std::move(library)) {
  library_->find("MCL_InitHandle", mcl_.init_handle);
  library_->find("MCL_ReleaseHandle", mcl_.release_handle);
  library_->find("MCL_GetSerialNumber", mcl_.serial_number);
  library_->find("MCL_GetProductInfo", mcl_.product_info);
  library_->find("MCL_GetCalibration", mcl_.calibration);
  library_->find("MCL_SingleReadN", mcl_.read);
  library_->find("MCL_SingleWriteN", mcl_.write);
  library_->find_if_any("MCL_DeviceAttached", mcl_.attached);
  if (!options_.device.empty()) {
    library_->find("MCL_GrabAllHandles", mcl_.grab_all_handles);
    library_->find("MCL_GetAllHandles", mcl_.get_all_handles);
  }
  for (const std::string& axis : options_.axes) numbers_.push_back(axis_number(axis));
}

/// Frees the controller for others and moves nothing: other programs drive it to 0 here.
void MadCityLabs::release() {
  if (handle_ > 0) mcl_.release_handle(handle_);
  handle_ = 0;
}

int MadCityLabs::handle_of_serial(int serial) {
  mcl_.grab_all_handles();
  std::array<int, 32> handles{};
  const int count = mcl_.get_all_handles(handles.data(), static_cast<int>(handles.size()));
  int found = 0;
  std::string there;
  for (int i = 0; i < count && i < static_cast<int>(handles.size()); ++i) {
    const int handle = handles[static_cast<std::size_t>(i)];
    const int number = mcl_.serial_number(handle);
    there += " " + std::to_string(number);
    if (number == serial) {
      found = handle;
    } else {
      mcl_.release_handle(handle);
    }
  }
  if (found == 0) {
    fail("found controllers" + (there.empty() ? " none" : there) + ", expected serial number " +
         std::to_string(serial));
  }
  return found;
}

void MadCityLabs::open() {
  release();
  if (options_.device.empty()) {
    handle_ = mcl_.init_handle();
    if (handle_ <= 0) fail("MCL_InitHandle() gave no controller: is one attached and free?");
    return;
  }
  const auto serial = parse_whole(options_.device);
  if (!serial) fail("device '" + options_.device + "' is no serial number");
  handle_ = handle_of_serial(*serial);
}

/// Lengths are never a negative whole number; codes are.
double MadCityLabs::checked(double value, const std::string& what) const {
  if (value <= -1 && value == std::floor(value) && value > -100) {
    fail(what + " failed, " + error_text(static_cast<int>(value)));
  }
  if (!std::isfinite(value)) fail(what + " is not a finite number");
  return value;
}

std::vector<Axis> MadCityLabs::connect() {
  open();
  refusal_ = {};
  ProductInformation product{};
  if (const int code = mcl_.product_info(&product, handle_); code != 0) {
    fail("MCL_GetProductInfo() failed, " + error_text(code));
  }
  if (product.dac_bits < 8 || product.dac_bits > 32) {
    fail("MCL_GetProductInfo() says " + std::to_string(product.dac_bits) +
         " bits of output, expected 16 or 20");
  }
  description_ = "Mad City Labs product " + std::to_string(product.product_id) +
                 ", serial number " + std::to_string(mcl_.serial_number(handle_)) + ", firmware " +
                 std::to_string(product.firmware_version);
  axes_.clear();
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const unsigned number = numbers_[i];
    if ((product.axis_bitmap & 1U << (number - 1)) == 0) {
      fail("found axes " + std::to_string(product.axis_bitmap) + " (bits), expected axis " +
           options_.axes[i] + " among them");
    }
    const double range_nm =
        kNmPerUm * checked(mcl_.calibration(number, handle_), "MCL_GetCalibration()");
    if (range_nm <= 0) fail("axis " + options_.axes[i] + " has no range");
    axes_.push_back({.name = options_.axes[i],
                     .min_nm = 0,
                     .max_nm = range_nm,
                     .resolution_nm = range_nm / std::exp2(product.dac_bits),
                     .closed_loop = true});
  }
  return axes_;
}

bool MadCityLabs::move_to(std::span<const double> nm) {
  if (Refusal refusal = refusal_of(nm, axes_); refusal.happened()) {
    refusal_ = std::move(refusal);  // one before that is not told yet stays otherwise
    return false;
  }
  for (std::size_t i = 0; i < nm.size(); ++i) {
    if (stays(nm[i])) continue;
    const int code = mcl_.write(nm[i] / kNmPerUm, numbers_[i], handle_);
    if (code == 0) continue;
    if (code == kDeviceError || code == kNotAttached || code == kInvalidHandle) {
      fail("MCL_SingleWriteN() failed, " + error_text(code));
    }
    refusal_ = {.condition = code == kArgument ? Condition::Limit : Condition::Error,
                .code = code,
                .text = "axis " + options_.axes[i] + ": move refused, " + error_text(code)};
    if (code == kNotReady) refusal_.text += " yet";
    return false;
  }
  return true;
}

void MadCityLabs::read(std::span<double> nm) {
  for (std::size_t i = 0; i < nm.size(); ++i) {
    nm[i] = kNmPerUm * checked(mcl_.read(numbers_[i], handle_), "MCL_SingleReadN()");
  }
}

Health MadCityLabs::health() {
  Health health;
  refusal_.move_into(health);
  if (mcl_.attached != nullptr && !mcl_.attached(kAttachedWithinMs, handle_)) {
    health.condition = Condition::Disconnected;
    health.error = kNotAttached;
    health.text = error_text(kNotAttached);
  }
  return health;
}

}  // namespace

void check_mad_city_labs_axes(const StageOptions& options) {
  std::array<std::string, 5> named;
  for (const std::string& axis : options.axes) {
    const unsigned number = axis_number(axis);
    if (number == 0) {
      throw StageError("axis '" + axis + "' is no Mad City Labs axis, expected X, Y, Z or AUX");
    }
    if (!named.at(number).empty()) {
      throw StageError("axes '" + named.at(number) + "' and '" + axis +
                       "' are one axis of Mad City Labs', expected two");
    }
    named.at(number) = axis;
  }
}

std::unique_ptr<Stage> use_mad_city_labs(const StageOptions& options,
                                         std::shared_ptr<const SharedLibrary> library) {
  return std::make_unique<MadCityLabs>(options, std::move(library));
}

}  // namespace driftd::stage
