// SPDX-License-Identifier: MIT
// Files that the browser keeps: the picture that is shown, the whole frame, the report of a record.
import { $, setText } from "./dom.js";
import { tiffOf } from "./tiff.js";
import { decode, pixelsOf } from "./wire.js";
import { number, sentence } from "./words.js";

export function keep(name, type, bytes) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const keepPicture = (frame_id, pixels, width, height) =>
  keep(`driftd-frame-${number(frame_id)}.tif`, "image/tiff", tiffOf(pixels, width, height));

/** The next frame with all its pixels. */
export async function keepWholePicture(tool) {
  const reply = await tool({ tool: "snapshot" });
  const message = reply.bytes === undefined ? null : decode(reply.bytes);
  if (message === null) {
    setText($("save-text"), `\u25b2 Not saved: ${sentence(reply.error ?? "the answer was not understood")}`);
    return;
  }
  const { frame_id, width_px: width, height_px: height } = message.header.frame;
  const pixels = pixelsOf({ width, height }, message.payload);
  if (pixels === null) return;
  keepPicture(frame_id, pixels, width, height);
  setText($("save-text"), `Saved: frame ${frame_id}, ${width} \u00d7 ${height} px.`);
}

export async function keepReport(tool) {
  const reply = await tool({ tool: "report_page" });
  if (reply.bytes !== undefined) keep("driftd-report.html", "text/html", reply.bytes);
  else setText($("report-text"), `\u25b2 ${sentence(reply.error ?? "")}`);
}
