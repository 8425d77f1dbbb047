// SPDX-License-Identifier: MIT
// Rows of the option table: where frames come from, and what a pixel is.
#include "config/options.hpp"

namespace driftd::config {
namespace {

std::vector<Option> image_options() {
  return {
      row<&Config::camera, &Camera::source>(
          "camera.source", Source::Aravis,
          {.text = "`aravis`: a GigE Vision or USB3 Vision camera. `replay`: a recording, see "
                   "section replay."}),
      row<&Config::camera, &Camera::id>(
          "camera.id", "",
          {.text = "Which camera: its IP address, serial number or Aravis id. Empty: the first "
                   "one found. Give the address of a GigE camera when the computer has several "
                   "network interfaces."}),
      row<&Config::camera, &Camera::start_without_camera>(
          "camera.start_without_camera", false,
          {.text = "When no camera answers at start: `true` keeps trying, as after a lost "
                   "connection; `false` ends the service with an error."}),
      row<&Config::camera, &Camera::pixel_format>(
          "camera.pixel_format", camera::PixelFormat::Mono12,
          {.text = "Pixel format by its GenICam name. The packed formats need three quarters of "
                   "the bandwidth (Mono10p: five eighths)."}),
      row<&Config::camera, &Camera::region_x_px>(
          "camera.region_x_px", 0,
          {.text = "First column of the sensor region that is read out. Cameras round it to a "
                   "multiple of their own.",
           .unit = "px",
           .min = 0,
           .max = 65535}),
      row<&Config::camera, &Camera::region_y_px>(
          "camera.region_y_px", 0,
          {.text = "First row of the sensor region. Fewer rows make most cameras faster.",
           .unit = "px",
           .min = 0,
           .max = 65535}),
      row<&Config::camera, &Camera::region_width_px>(
          "camera.region_width_px", 0,
          {.text = "Width of the region. 0: up to the sensor's end.",
           .unit = "px",
           .min = 0,
           .max = 65535}),
      row<&Config::camera, &Camera::region_height_px>(
          "camera.region_height_px", 0,
          {.text = "Height of the region. 0: up to the sensor's end.",
           .unit = "px",
           .min = 0,
           .max = 65535}),
      row<&Config::camera, &Camera::exposure_us>(
          "camera.exposure_us", 1000,
          {.text = "Exposure time. The brightest marker should stay below three quarters of the "
                   "pixel format's range.",
           .unit = "us",
           .min = 1,
           .max = 10'000'000}),
      row<&Config::camera, &Camera::gain_db>(
          "camera.gain_db", 0,
          {.text = "Analogue gain. It adds no light: leave it at 0 unless read noise dominates. A "
                   "camera that counts its gain as a factor gets 10^(dB/20); one that counts in "
                   "steps of its own takes 0 alone, its least gain.",
           .unit = "dB",
           .min = -24,
           .max = 60}),
      row<&Config::camera, &Camera::frame_rate_hz>(
          "camera.frame_rate_hz", 0,
          {.text =
               "Frame rate with the trigger off, or of the software trigger, which needs one. 0: "
               "what the camera does by itself.",
           .unit = "Hz",
           .min = 0,
           .max = 100'000}),
      row<&Config::camera, &Camera::trigger>(
          "camera.trigger", camera::Trigger::Off,
          {.text = "What starts an exposure: `off`, the camera's own clock; `hardware`, an edge "
                   "on camera.trigger_line; `software`, a command of driftd."}),
      row<&Config::camera, &Camera::trigger_line>(
          "camera.trigger_line", "Line1",
          {.text = "The camera's name of the trigger input, for `trigger: hardware`."}),
      row<&Config::camera, &Camera::in_lock_line>(
          "camera.in_lock_line", "",
          {.text = "The camera's name of an output that is high while images may be taken "
                   "(`in_lock`), such as Line2, for a microscope that is paused by a wire. Empty: "
                   "none. It stays as it is when driftd is killed."}),
  };
}

std::vector<Option> transport_options() {
  return {
      row<&Config::camera, &Camera::packet_size_bytes>(
          "camera.packet_size_bytes", 0,
          {.text = "GigE Vision packet size, headers included. 0: found automatically, which "
                   "some networks defeat. 9000 needs jumbo frames on card and switch, 1500 works "
                   "everywhere.",
           .unit = "bytes",
           .min = 0,
           .max = 9216}),
      row<&Config::camera, &Camera::socket_buffer_bytes>(
          "camera.socket_buffer_bytes", 4 << 20,
          {.text = "Receive buffer of the GigE Vision stream; should hold several frames. The "
                   "kernel's net.core.rmem_max limits it.",
           .unit = "bytes",
           .min = 65536,
           .max = 1 << 30}),
      row<&Config::camera, &Camera::resend>(
          "camera.resend", camera::Resend::Always,
          {.text =
               "Are packets that got lost asked for again? `never` gives up the frame instead."}),
      row<&Config::camera, &Camera::stall_timeout_ms>(
          "camera.stall_timeout_ms", 100,
          {.text = "With the trigger off, no frame for so long counts as a lost connection. At "
                   "least two frame periods.",
           .unit = "ms",
           .min = 10,
           .max = 60'000}),
      row<&Config::camera, &Camera::heartbeat_timeout_ms>(
          "camera.heartbeat_timeout_ms", 1500,
          {.text =
               "For so long a GigE Vision camera stays with a daemon that died or stands still, "
               "and refuses the next one. Cameras come with 3000 ms.",
           .unit = "ms",
           .min = 500,
           .max = 60'000}),
  };
}

std::vector<Option> noise_options() {
  return {
      row<&Config::camera, &Camera::offset_adu>(
          "camera.offset_adu", 0,
          {.text = "Pixel value in the dark (the camera's bias). Needs camera.gain_e_per_adu.",
           .unit = "ADU",
           .min = 0,
           .max = 65535}),
      row<&Config::camera, &Camera::gain_e_per_adu>(
          "camera.gain_e_per_adu", 0,
          {.text = "Photoelectrons per grey level, from the data sheet or a photon transfer curve. "
                   "With it, the uncertainties follow from photon statistics; 0, not known: they "
                   "follow from the scatter of the fit's residuals.",
           .unit = "e-/ADU",
           .min = 0,
           .max = 1000}),
      row<&Config::camera, &Camera::read_noise_e>(
          "camera.read_noise_e", 0,
          {.text = "Read noise of a pixel, standard deviation. Needs camera.gain_e_per_adu.",
           .unit = "e-",
           .min = 0,
           .max = 10'000}),
      row<&Config::camera, &Camera::saturation_adu>(
          "camera.saturation_adu", 0,
          {.text = "A pixel at or above this value is saturated, and its marker is not fitted. 0: "
                   "the camera's `PixelDynamicRangeMax` where it has one, otherwise the largest "
                   "value of the pixel format; less where many pixels of the image in which "
                   "markers are looked for share its largest value (`saturation_found`).",
           .unit = "ADU",
           .min = 0,
           .max = 65535}),
      row<&Config::camera, &Camera::readout_us>(
          "camera.readout_us", 1000,
          {.text =
               "From the end of the exposure to the last byte at the computer: sensor read-out "
               "and transfer. The controller dates each frame by it; a transfer over 1 Gbit/s "
               "takes 8 ns a byte. What it is wrong by, `driftctl calibrate` finds as dead time "
               "of the stage, and the lock is as good: calibrate again where you change it.",
           .unit = "us",
           .min = 0,
           .max = 1'000'000}),
  };
}

std::vector<Option> replay_options() {
  return {
      row<&Config::replay, &Replay::path>(
          "replay.path", "",
          {.text =
               "The recording, or a folder of TIFFs that are one; relative to the folder of the "
               "configuration file."}),
      row<&Config::replay, &Replay::format>(
          "replay.format", camera::ReplayFormat::Tiff,
          {.text =
               "`tiff`: a multi-page stack of 8 or 16 bits, also OME-TIFF, NDTiff, STK and what "
               "driftfit reads. `hdf5`: a data set of three dimensions, frames first, of 8 or 16 "
               "bits. `raw_u8`, `raw_u16`: plain pixels (u16 little-endian), frame after frame, of "
               "replay.width_px x replay.height_px."}),
      row<&Config::replay, &Replay::dataset>(
          "replay.dataset", "",
          {.text = "Which data set of an HDF5 file, such as /entry/data. Empty: the only one with "
                   "three dimensions."}),
      row<&Config::replay, &Replay::series>(
          "replay.series", -1,
          {.text =
               "Which Image of an OME-TIFF, or position of another TIFF, counted from 0. -1: the "
               "only one, or the only one that has planes in the file.",
           .min = -1,
           .max = 2'147'483'647}),
      row<&Config::replay, &Replay::channel>(
          "replay.channel", -1,
          {.text =
               "Which channel of a TIFF whose metadata tell of several, counted from 0. -1: the "
               "only one.",
           .min = -1,
           .max = 2'147'483'647}),
      row<&Config::replay, &Replay::slice>(
          "replay.slice", -1,
          {.text = "Which position in z of a TIFF whose metadata tell of several, counted from 0. "
                   "-1: the only one; where the file has one time alone, its positions are the "
                   "frames.",
           .min = -1,
           .max = 2'147'483'647}),
      row<&Config::replay, &Replay::every_page>(
          "replay.every_page", false,
          {.text = "Each page of a TIFF is a frame, whatever its metadata say."}),
      row<&Config::replay, &Replay::allow_truncated>(
          "replay.allow_truncated", false,
          {.text = "Play the whole frames at the beginning of a truncated file. `false`: such a "
                   "file is refused."}),
      row<&Config::replay, &Replay::width_px>("replay.width_px", 0,
                                              {.text = "Frame width of a raw file. The others "
                                                       "say their own: leave it 0.",
                                               .unit = "px",
                                               .min = 0,
                                               .max = 65535}),
      row<&Config::replay, &Replay::height_px>("replay.height_px", 0,
                                               {.text = "Frame height of a raw file. The others "
                                                        "say their own: leave it 0.",
                                                .unit = "px",
                                                .min = 0,
                                                .max = 65535}),
      row<&Config::replay, &Replay::first_frame>(
          "replay.first_frame", 0,
          {.text = "First frame to play, counted from 0.", .min = 0, .max = 2'147'483'647}),
      row<&Config::replay, &Replay::last_frame>(
          "replay.last_frame", -1,
          {.text = "Last frame to play, included. -1: the last there is.",
           .min = -1,
           .max = 2'147'483'647}),
      row<&Config::replay, &Replay::pace>(
          "replay.pace", camera::ReplayPace::Rate,
          {.text = "`rate`: replay.rate_hz. `recorded`: as the file's own times say. `fast`: as "
                   "fast as the loop takes them."}),
      row<&Config::replay, &Replay::rate_hz>(
          "replay.rate_hz", 100,
          {.text = "Frame rate for `pace: rate`.", .unit = "Hz", .min = 0.01, .max = 100'000}),
      row<&Config::replay, &Replay::on_end>(
          "replay.on_end", camera::ReplayEnd::Stop,
          {.text = "After the last frame: `stop` ends the stream, `loop` starts over."}),
      row<&Config::replay, &Replay::wait_for_subscriber_s>(
          "replay.wait_for_subscriber_s", 0,
          {.text = "Wait so long at most for a first subscriber to `position` before the first "
                   "frame, so that it misses none; 0: start at once.",
           .unit = "s",
           .min = 0,
           .max = 3600}),
  };
}

std::vector<Option> optics_options() {
  return {
      row<&Config::optics, &Optics::pixel_size_nm>(
          "optics.pixel_size_nm", 100,
          {.text = "Camera pixel in the sample plane: the sensor's pixel pitch over the "
                   "magnification. Every nanometre that driftd reports scales with it.",
           .unit = "nm",
           .min = 1,
           .max = 10'000}),
      row<&Config::optics, &Optics::spot_sigma_px>(
          "optics.spot_sigma_px", 0,
          {.text = "Expected standard deviation of a marker's image, full width at half maximum "
                   "over 2.355. Sets the scale of the marker search. `auto`: found in the first "
                   "image; the event `spot_size_chosen`, the log and `driftctl status` say what "
                   "and why. With `markers.mode: list`: a tenth of fitter.roi_px.",
           .unit = "px",
           .min = 0.5,
           .max = 16,
           .or_auto = true}),
  };
}

}  // namespace

std::vector<Option> source_options() {
  return joined(
      {image_options(), transport_options(), noise_options(), replay_options(), optics_options()});
}

}  // namespace driftd::config
