#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes an image of each tile of a field, while driftd holds the sample still at every one:

    python3 tiling_example.py 40 40 250        40 x 40 tiles, 250 nm from one to the next

The sample has to be locked, and the limits of driftd's configuration have to reach so far
(control.range_limit_nm, control.travel_limit_nm). `take_image` is for your camera.
"""
import sys

import driftd


def tiles(columns: int, rows: int, pitch_nm: float):
    """Row by row around the reference, there and back: no way is longer than one pitch."""
    for row in range(rows):
        for column in range(columns) if row % 2 == 0 else reversed(range(columns)):
            yield pitch_nm * (column - (columns - 1) / 2), pitch_nm * (row - (rows - 1) / 2)


def take_image(x_nm: float, y_nm: float, status: dict) -> None:
    residual = status["gate"]["residual_x_nm"], status["gate"]["residual_y_nm"]
    print(f"{x_nm:9.1f} {y_nm:9.1f} nm, residual {residual[0]:.2f} {residual[1]:.2f} nm", flush=True)


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    columns, rows, pitch_nm = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    client = driftd.Client(sys.argv[4] if len(sys.argv) > 4 else driftd.COMMANDS)
    try:
        for x_nm, y_nm in tiles(columns, rows, pitch_nm):
            move = client.move(x_nm, y_nm)
            # Held for a moment, the lock goes on by itself: the move then takes longer.
            status = client.wait_for_move(move["move"], timeout_s=move["duration_s"] + 30)
            take_image(x_nm, y_nm, status)
    finally:
        client.move_home()


if __name__ == "__main__":
    main()
