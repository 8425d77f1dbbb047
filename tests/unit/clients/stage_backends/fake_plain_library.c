/* SPDX-License-Identifier: MIT
 * A library with the functions of driftd_stage_library.h, in C as a laboratory would write it. */
#include <stdio.h>
#include <string.h>

#include "clients/stage/backends/driftd_stage_library.h"

static double place_nm[3];
static int axes_open;

int driftd_stage_version(void) {
  return DRIFTD_STAGE_LIBRARY_VERSION;
}

int driftd_stage_open(const char* device, const char* const* axes, int count, int switch_servo_on,
                      void** stage) {
  (void)switch_servo_on;
  if (strcmp(device, "absent") == 0) return 3;
  if (count > 3 || axes[0] == NULL) return 4;
  axes_open = count;
  *stage = place_nm;
  return 0;
}
void driftd_stage_close(void* stage) {
  (void)stage;
}
int driftd_stage_axis_info(void* stage, int axis, struct driftd_stage_axis* info) {
  (void)stage;
  info->min_nm = -1000.0 * (axis + 1);
  info->max_nm = 1000.0 * (axis + 1);
  info->resolution_nm = 0.5;
  info->closed_loop = 1;
  return 0;
}
int driftd_stage_describe(void* stage, char* text, int size) {
  (void)stage;
  snprintf(text, (size_t)size, "fake stage, %d axes", axes_open);
  return 0;
}
int driftd_stage_move(void* stage, const double* nm) {
  (void)stage;
  if (nm[0] > 1000) return 7;
  memcpy(place_nm, nm, sizeof(double) * (size_t)axes_open);
  return 0;
}
int driftd_stage_read(void* stage, double* nm) {
  (void)stage;
  memcpy(nm, place_nm, sizeof(double) * (size_t)axes_open);
  return place_nm[0] < -900 ? 9 : 0;
}
int driftd_stage_get_health(void* stage, struct driftd_stage_health* health) {
  (void)stage;
  health->condition = place_nm[0] < -500 ? DRIFTD_STAGE_SERVO_OFF : DRIFTD_STAGE_READY;
  health->on_target = 1;
  health->error = place_nm[0] < -500 ? 5 : 0;
  return 0;
}
const char* driftd_stage_error(void* stage, int code) {
  (void)stage;
  switch (code) {
    case 3:
      return "no such device";
    case 5:
      return "the servo is off";
    case 7:
      return "beyond the end";
    default:
      return "something else";
  }
}
