# SPDX-License-Identifier: MIT
"""A stage driver in thirty lines: moves a stage to where driftd's corrections say.

Replace `Stage` by your own. Corrections are absolute, relative to the place of the stage when the
lock engaged: a lost message is harmless and only the newest counts. `driftd.Corrections` leaves out
what came too late: after a pause of this program nothing old moves the stage. Run:
stage_driver_example.py [ENDPOINT]
"""
import sys

import driftd

SILENCE_S = 1.0  # no correction for this long: the lock holds, is lost, or driftd is gone


class Stage:
    """Stands for your stage's own interface, with positions in nanometres."""

    x_nm, y_nm = 0.0, 0.0

    def move_to(self, x_nm: float, y_nm: float) -> None:
        self.x_nm, self.y_nm = x_nm, y_nm
        print(f"stage {x_nm:+9.3f} {y_nm:+9.3f} nm", flush=True)


def drive(stage: Stage, endpoint: str) -> None:
    lock = None  # the (session, lock_id) that the zero belongs to
    zero_x_nm = zero_y_nm = 0.0
    with driftd.Corrections(endpoint) as corrections:
        while True:
            try:
                message = corrections.receive(SILENCE_S)
            except TimeoutError:  # the stage stays where it was told last
                continue
            if lock != (message["session"], message["lock_id"]):  # a new lock: a new zero, here
                zero_x_nm, zero_y_nm = stage.x_nm, stage.y_nm
                if lock is None:  # this driver may have started in the middle of a lock: no jump
                    zero_x_nm -= message["total_x_nm"] - message["delta_x_nm"]
                    zero_y_nm -= message["total_y_nm"] - message["delta_y_nm"]
                lock = (message["session"], message["lock_id"])
            stage.move_to(zero_x_nm + message["total_x_nm"], zero_y_nm + message["total_y_nm"])


if __name__ == "__main__":
    drive(Stage(), sys.argv[1] if len(sys.argv) > 1 else driftd.CORRECTIONS)
