# SPDX-License-Identifier: MIT
"""Pictures that driftctl wrote, pixel by pixel."""
import struct
import zlib


def pixels_of_png(data: bytes) -> list[list[bytes]]:
    """Rows of pixels of a PNG of 8-bit RGB, not interlaced, each pixel three bytes."""
    place, packed = 8, b""
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", data, place + 8)
        if kind == b"IDAT":
            packed += data[place + 8:place + 8 + size]
        place += size + 12
    raw, row, rows = zlib.decompress(packed), bytearray(3 * width), []
    for y in range(height):
        begin = y * (3 * width + 1)
        method, line, above = raw[begin], bytearray(raw[begin + 1:begin + 1 + 3 * width]), row
        for i in range(3 * width):
            left, corner = (line[i - 3], above[i - 3]) if i > 2 else (0, 0)
            up, plain = above[i], left + above[i] - corner
            nearest = min((left, up, corner), key=lambda v: abs(plain - v))  # in this order if equal
            line[i] = (line[i] + (0, left, up, (left + up) // 2, nearest)[method]) & 0xff
        row = line
        rows.append([bytes(row[i:i + 3]) for i in range(0, 3 * width, 3)])
    return rows
