// SPDX-License-Identifier: MIT
// Rows of the option table: the service around the lock.
#include "config/options.hpp"

namespace driftd::config {
namespace {

std::vector<Option> realtime_section() {
  return {
      row<&Config::realtime, &RealTime::mode>(
          "realtime.mode", RealTimeMode::Prefer,
          {.text = "Real-time scheduling and locked memory: `require` ends the service without "
                   "them, `prefer` says what is missing and goes on, `off` does not ask."}),
      row<&Config::realtime, &RealTime::priority>(
          "realtime.priority", 50,
          {.text =
               "SCHED_FIFO priority of the tracking loop. The thread that receives the camera's "
               "packets has 5 more, the one that hands messages to ZeroMQ 5 less.",
           .min = 6,
           .max = 93}),
      row<&Config::realtime, &RealTime::loop_cpu>(
          "realtime.loop_cpu", -1,
          {.text = "CPU that the tracking loop and the publisher are pinned to. -1: the kernel "
                   "chooses.",
           .min = -1,
           .max = 1023}),
      row<&Config::realtime, &RealTime::stream_cpu>(
          "realtime.stream_cpu", -1,
          {.text =
               "CPU that the receiving thread is pinned to. The loop's own, so that no other core "
               "has to be woken, unless receiving takes much of a core. -1: the kernel "
               "chooses.",
           .min = -1,
           .max = 1023}),
  };
}

std::vector<Option> wire_section() {
  return {
      row<&Config::wire, &Wire::publish>(
          "wire.publish", Endpoints{"ipc://publish"},
          {.text =
               "Where positions, markers, status and events are published: `ipc://` and a name in "
               "the runtime directory (docs/reference/protocol.md) or an absolute path, or "
               "`tcp://` on a loopback address, where every user of the computer "
               "may connect. A list binds the socket to several. With `access.server_key`, "
               "`tcp://` on any IPv4 address, or `*` for all: there, and on loopback, only clients "
               "with a key are let in."}),
      row<&Config::wire, &Wire::corrections>(
          "wire.corrections", Endpoints{"ipc://corrections"},
          {.text = "Where corrections are published, with a queue of a few messages; the same "
                   "kinds of address."}),
      row<&Config::wire, &Wire::commands>(
          "wire.commands", Endpoints{"ipc://commands"},
          {.text = "Where commands are taken; the same kinds of address. Without keys a "
                   "`tcp://` address has no permissions: every user of the computer may lock and "
                   "unlock."}),
      row<&Config::wire, &Wire::status_interval_ms>("wire.status_interval_ms", 1000,
                                                    {.text = "Time between `status` messages.",
                                                     .unit = "ms",
                                                     .min = 50,
                                                     .max = 60'000,
                                                     .reload = Reload::Live}),
      row<&Config::wire, &Wire::markers_interval_ms>(
          "wire.markers_interval_ms", 100,
          {.text = "Time between `markers` messages. 0: one with every frame.",
           .unit = "ms",
           .min = 0,
           .max = 60'000,
           .reload = Reload::Live}),
  };
}

std::vector<Option> access_section() {
  return {
      row<&Config::access, &Access::server_key>(
          "access.server_key", "",
          {.text = "File with the secret key of this daemon, as `driftctl keygen server` makes it; "
                   "others may not read it. Empty: no keys, and no sockets that other computers "
                   "reach."}),
      row<&Config::access, &Access::clients>(
          "access.clients", "",
          {.text = "Folder of the public keys that are let in, one file NAME.key for each client, "
                   "with its role in the metadata: `observe`, `stage`, `command`, or several. Read "
                   "again at each reload; who is no longer there is disconnected.",
           .reload = Reload::Live}),
      row<&Config::access, &Access::observe_group>(
          "access.observe_group", "",
          {.text = "Group whose members have the role `observe` on local sockets. Where no group "
                   "is given, whoever may connect has all roles; root and the daemon's own user "
                   "always do.",
           .reload = Reload::Live}),
      row<&Config::access, &Access::stage_group>(
          "access.stage_group", "",
          {.text = "The same for the role `stage`.", .reload = Reload::Live}),
      row<&Config::access, &Access::command_group>(
          "access.command_group", "",
          {.text = "The same for the role `command`.", .reload = Reload::Live}),
  };
}

std::vector<Option> record_section() {
  return {
      row<&Config::record, &Record::directory>(
          "record.directory", "",
          {.text = "Folder of the records, made where it is not there. Empty: `records` in the "
                   "state directory, which systemd sets to /var/lib/driftd.",
           .reload = Reload::Live}),
      row<&Config::record, &Record::at_lock>(
          "record.at_lock", false,
          {.text = "Record from each lock to its end, without being told.",
           .reload = Reload::Live}),
      row<&Config::record, &Record::max_file_mb>("record.max_file_mb", 1000,
                                                 {.text = "A file that has grown so large is "
                                                          "closed, and the next one begun.",
                                                  .unit = "MB",
                                                  .min = 1,
                                                  .max = 1'000'000,
                                                  .reload = Reload::Live}),
      row<&Config::record, &Record::max_file_minutes>(
          "record.max_file_minutes", 60,
          {.text = "The same after so long. A file that is closed cannot be harmed any more.",
           .unit = "minutes",
           .min = 1,
           .max = 100'000,
           .reload = Reload::Live}),
      row<&Config::record, &Record::keep_mb>(
          "record.keep_mb", 0,
          {.text = "The oldest records are removed when all together are larger. 0: all are kept "
                   "as long as record.keep_free_mb allows.",
           .unit = "MB",
           .min = 0,
           .max = 100'000'000,
           .reload = Reload::Live}),
      row<&Config::record, &Record::keep_free_mb>(
          "record.keep_free_mb", 1000,
          {.text = "So much of the disk stays free: first the oldest records go, then the "
                   "recording ends.",
           .unit = "MB",
           .min = 1,
           .max = 100'000'000,
           .reload = Reload::Live}),
      row<&Config::record, &Record::frames_memory_mb>(
          "record.frames_memory_mb", 0,
          {.text = "Most memory for raw frames, taken and locked at the start. "
                   "record.frames_before_s at the camera's rate has to fit in, with "
                   "lock.hold_timeout_s where record.frames_at is `lost`. 0: none are kept.",
           .unit = "MB",
           .min = 0,
           .max = 1'000'000}),
      row<&Config::record, &Record::frames_before_s>(
          "record.frames_before_s", 10.0,
          {.text = "So much of the time before an event is saved of raw frames; of a lost lock, "
                   "the time since it was held, too. 0: none are kept.",
           .unit = "s",
           .min = 0,
           .max = 3600,
           .reload = Reload::Live}),
      row<&Config::record, &Record::frames_after_s>("record.frames_after_s", 1.0,
                                                    {.text = "And so much of the time after it.",
                                                     .unit = "s",
                                                     .min = 0,
                                                     .max = 3600,
                                                     .reload = Reload::Live}),
      row<&Config::record, &Record::frames_at>(
          "record.frames_at", RawFramesAt::Lost,
          {.text = "Which events: `lost`, when the lock is lost or in fault; `holding`, each time "
                   "that it stops correcting, too; `command`, none. `driftctl record frames` saves "
                   "them at any time.",
           .reload = Reload::Live}),
      row<&Config::record, &Record::frames_keep_mb>(
          "record.frames_keep_mb", 20'000,
          {.text = "The oldest files of raw frames are removed when all together are larger. 0: "
                   "all are kept as long as record.keep_free_mb allows.",
           .unit = "MB",
           .min = 0,
           .max = 100'000'000,
           .reload = Reload::Live}),
  };
}

std::vector<Option> log_section() {
  return {
      row<&Config::log, &Log::level>(
          "log.level", LogLevel::Info,
          {.text = "The least serious messages that are logged.", .reload = Reload::Live}),
  };
}

std::vector<Option> hook_section() {
  return {
      row<&Config::hook, &Hook::on_event>(
          "hook.on_event", {},
          {.text =
               "A program to run for events, by its absolute path; one that everybody may write "
               "is not run. It learns of the event by its environment (docs/use/watching.md). "
               "Empty: none.",
           .reload = Reload::Live}),
      row<&Config::hook, &Hook::level>(
          "hook.level", EventLevel::Warning,
          {.text = "The least serious events that it is run for.", .reload = Reload::Live}),
      row<&Config::hook, &Hook::time_limit_s>("hook.time_limit_s", 30.0,
                                              {.text = "It is ended when it takes longer.",
                                               .unit = "s",
                                               .min = 0.1,
                                               .max = 600,
                                               .reload = Reload::Live}),
      row<&Config::hook, &Hook::per_minute>(
          "hook.per_minute", 6,
          {.text = "It is run so often a minute for events of one code; the next run says how many "
                   "were left out.",
           .min = 1,
           .max = 600,
           .reload = Reload::Live}),
  };
}

}  // namespace

std::vector<Option> service_options() {
  return joined({realtime_section(), wire_section(), access_section(), record_section(),
                 log_section(), hook_section()});
}

}  // namespace driftd::config
