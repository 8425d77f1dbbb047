// SPDX-License-Identifier: MIT
// A picture as a file of its own 16 bits: TIFF 6.0, grey, not compressed. Pure.

const kShort = 3;
const kLong = 4;

/** The bytes of a TIFF of `width` x `height` pixels. */
export function tiffOf(pixels, width, height) {
  const entries = [
    [256, kLong, width], [257, kLong, height], [258, kShort, 16], [259, kShort, 1], [262, kShort, 1],
    [273, kLong, 0], [277, kShort, 1], [278, kLong, height], [279, kLong, 2 * pixels.length],
  ];
  const begin = 8 + 2 + 12 * entries.length + 4;
  entries[5][2] = begin;
  const view = new DataView(new ArrayBuffer(begin + 2 * pixels.length));
  view.setUint32(0, 0x002a4949, true);
  view.setUint32(4, 8, true);
  view.setUint16(8, entries.length, true);
  entries.forEach(([tag, type, value], i) => {
    const at = 10 + 12 * i;
    view.setUint16(at, tag, true);
    view.setUint16(at + 2, type, true);
    view.setUint32(at + 4, 1, true);
    view.setUint32(at + 8, value, true); // a short lies in the first two bytes
  });
  pixels.forEach((value, i) => view.setUint16(begin + 2 * i, value, true));
  return view.buffer;
}
