// SPDX-License-Identifier: MIT
// Two controllers as Mad City Labs' library shows them, for the test of the loader: functions and
// codes by Micro-Manager's Madlib.h, nothing of the maker's. What a test wants goes in by fake_*.
#include <cmath>
#include <cstring>
#include <string>

namespace {

constexpr int kFirstHandle = 1;
constexpr int kSecondHandle = 2;

struct Fake {
  double place_um[5] = {0, 50, 60, 0, 0};
  int write_code = 0;
  double read_value = 0;
  bool give_read_value = false;
  bool attached = true;
  std::string calls;
};

Fake& fake() {
  static Fake one;
  return one;
}

bool known(int handle) {
  return handle == kFirstHandle || handle == kSecondHandle;
}

}  // namespace

#pragma pack(push, 1)
struct ProductInformation {
  unsigned char axis_bitmap;
  short adc, dac, product, firmware, profile;
};
#pragma pack(pop)

extern "C" {

void fake_reset() {
  fake() = {};
}
void fake_write_code(int code) {
  fake().write_code = code;
}
void fake_read_value(double value) {
  fake().read_value = value;
  fake().give_read_value = true;
}
void fake_attached(bool attached) {
  fake().attached = attached;
}
const char* fake_calls() {
  return fake().calls.c_str();
}

// NOLINTBEGIN(readability-identifier-naming): the library's names
int MCL_InitHandle() {
  fake().calls += "init ";
  return kFirstHandle;
}
int MCL_GrabAllHandles() {
  return 2;
}
int MCL_GetAllHandles(int* handles, int size) {
  for (int i = 0; i < size && i < 2; ++i) handles[i] = i + 1;
  return 2;
}
void MCL_ReleaseHandle(int handle) {
  fake().calls += "release" + std::to_string(handle) + " ";
}
int MCL_GetSerialNumber(int handle) {
  return 2000 + handle;
}
int MCL_GetProductInfo(ProductInformation* product, int handle) {
  if (!known(handle)) return -8;
  *product = {.axis_bitmap = 3, .adc = 20, .dac = 20, .product = 8193, .firmware = 5, .profile = 0};
  return 0;
}
double MCL_GetCalibration(unsigned axis, int handle) {
  if (!known(handle)) return -8;
  return axis == 1 ? 100.0 : 200.0;
}
double MCL_SingleReadN(unsigned axis, int handle) {
  if (!known(handle)) return -8;
  return fake().give_read_value ? fake().read_value : fake().place_um[axis];
}
int MCL_SingleWriteN(double um, unsigned axis, int handle) {
  if (!known(handle)) return -8;
  if (fake().write_code != 0) return fake().write_code;
  fake().calls += std::to_string(axis) + "=" + std::to_string(std::lround(um * 1e3)) + " ";
  fake().place_um[axis] = um;
  return 0;
}
bool MCL_DeviceAttached(int, int handle) {
  return known(handle) && fake().attached;
}
// NOLINTEND(readability-identifier-naming)
}
