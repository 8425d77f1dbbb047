/* SPDX-License-Identifier: MIT
 * The functions that a library may offer to driftd-stage (driver: library). Write them around a
 * vendor's own library, build a shared object and name its file in the configuration. All are
 * called from one thread. Positions are the controller's own, in nm, in the order of the axes at
 * driftd_stage_open(). A function that returns int returns 0 for success; otherwise a code of the
 * library's own, which driftd_stage_error() puts into words.
 */
#ifndef DRIFTD_STAGE_LIBRARY_H
#define DRIFTD_STAGE_LIBRARY_H

/* NOLINTBEGIN(readability-identifier-naming,modernize-*): names of C */

#ifdef __cplusplus
extern "C" {
#endif

#define DRIFTD_STAGE_LIBRARY_VERSION 1

struct driftd_stage_axis {
  double min_nm;
  double max_nm;
  double resolution_nm;
  int closed_loop;
};

/* What driftd_stage_get_health() says; on_target: 1, 0, or -1 where it is not known. */
enum driftd_stage_condition {
  DRIFTD_STAGE_READY = 0,
  DRIFTD_STAGE_SERVO_OFF = 1,
  DRIFTD_STAGE_NOT_REFERENCED = 2,
  DRIFTD_STAGE_LIMIT = 3,
  DRIFTD_STAGE_ERROR = 4,
  DRIFTD_STAGE_DISCONNECTED = 5
};
struct driftd_stage_health {
  int condition;
  int on_target;
  int error;
};

/* DRIFTD_STAGE_LIBRARY_VERSION, as the library was built. */
int driftd_stage_version(void);
/* Opens `device` (the configuration's, may be empty), with `count` axes of the given names. Moves
 * nothing, and switches no servo unless `switch_servo_on`. */
int driftd_stage_open(const char* device, const char* const* axes, int count, int switch_servo_on,
                      void** stage);
void driftd_stage_close(void* stage);
int driftd_stage_axis_info(void* stage, int axis, struct driftd_stage_axis* info);
/* Maker, model, serial number and firmware, ended by 0. */
int driftd_stage_describe(void* stage, char* text, int size);
/* Sends a target for each axis and does not wait until it is reached. An axis whose target is no
 * number (NaN) is left as it is: with x and y it is z that nobody holds, and the reverse. */
int driftd_stage_move(void* stage, const double* nm);
int driftd_stage_read(void* stage, double* nm);
int driftd_stage_get_health(void* stage, struct driftd_stage_health* health);
/* What a code means; `stage` may be NULL. */
const char* driftd_stage_error(void* stage, int code);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming,modernize-*) */

#endif
