/* SPDX-License-Identifier: MIT
 * A vendor's library, as `driver: library` takes one, over the simulator's stage: `device` is the
 * socket of `driftd-sim --stage-input`. Integration tests name its file; one stage, one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "clients/stage/backends/driftd_stage_library.h"

enum { kAxes = 2, kNoAnswer = 100 };

static int the_socket = -1;

static int tell(const char* text) {
  return send(the_socket, text, strlen(text), 0) < 0 ? errno : 0;
}

int driftd_stage_version(void) {
  return DRIFTD_STAGE_LIBRARY_VERSION;
}

void driftd_stage_close(void* stage) {
  (void)stage;
  if (the_socket >= 0) close(the_socket);
  the_socket = -1;
}

int driftd_stage_open(const char* device, const char* const* axes, int count, int switch_servo_on,
                      void** stage) {
  struct sockaddr_un simulator = {.sun_family = AF_UNIX};
  const struct sockaddr_un own = {.sun_family = AF_UNIX};
  const struct timeval patience = {.tv_sec = 2};
  (void)switch_servo_on;
  if (count != kAxes || strcmp(axes[0], "1") != 0) return EINVAL;
  snprintf(simulator.sun_path, sizeof simulator.sun_path, "%s", device);
  driftd_stage_close(NULL);
  the_socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  /* Of the family alone: the kernel gives an abstract name to be answered at. */
  if (the_socket < 0 || bind(the_socket, (const void*)&own, sizeof(sa_family_t)) != 0 ||
      setsockopt(the_socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
      connect(the_socket, (const void*)&simulator, sizeof simulator) != 0) {
    return errno;
  }
  *stage = &the_socket;
  return 0;
}

int driftd_stage_axis_info(void* stage, int axis, struct driftd_stage_axis* info) {
  (void)stage;
  (void)axis;
  *info = (struct driftd_stage_axis){
      .min_nm = -50000, .max_nm = 50000, .resolution_nm = 0.1, .closed_loop = 1};
  return 0;
}

int driftd_stage_describe(void* stage, char* text, int size) {
  (void)stage;
  snprintf(text, (size_t)size, "simulated stage by a library");
  return 0;
}

int driftd_stage_move(void* stage, const double* nm) {
  char text[64];
  (void)stage;
  snprintf(text, sizeof text, "move %.4f %.4f", nm[0], nm[1]);
  return tell(text);
}

int driftd_stage_read(void* stage, double* nm) {
  char text[256];
  (void)stage;
  while (recv(the_socket, text, sizeof text, MSG_DONTWAIT) > 0) {
  } /* late answers */
  const int code = tell("read");
  if (code != 0) return code;
  const ssize_t length = recv(the_socket, text, sizeof text - 1, 0);
  if (length < 0) return errno;
  text[length] = 0;
  return sscanf(text, "%lf %lf", &nm[0], &nm[1]) == kAxes ? 0 : kNoAnswer;
}

int driftd_stage_get_health(void* stage, struct driftd_stage_health* health) {
  (void)stage;
  *health = (struct driftd_stage_health){.condition = DRIFTD_STAGE_READY, .on_target = -1};
  return 0;
}

const char* driftd_stage_error(void* stage, int code) {
  (void)stage;
  return code == kNoAnswer ? "the simulator gave no place" : strerror(code);
}
