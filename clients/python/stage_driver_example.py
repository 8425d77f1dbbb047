# SPDX-License-Identifier: MIT
"""A stage driver in thirty lines: moves a stage to where driftd's corrections say.

Replace what `MyStage` does by your own stage's calls. `driftd-stage`, which this starts, does the rest: it carries
out the newest correction only and none that came too late, never jumps, keeps to limits, and reports to driftd
(docs/use/stages-python.md). Run: stage_driver_example.py [--driftd driftd.yaml] [--help]
"""
import driftd.stages


class MyStage(driftd.stages.Stage):
    """Stands for your stage: it is at once where it is sent, and says so."""

    def connect(self):
        self.place_nm = getattr(self, "place_nm", (1000.0, 2000.0))
        return [driftd.stages.Axis("1", 0, 100_000, 0.1), driftd.stages.Axis("2", 0, 100_000, 0.1)]

    def move_to(self, positions_nm):
        self.place_nm = positions_nm
        print(f"stage {positions_nm[0]:9.3f} {positions_nm[1]:9.3f} nm", flush=True)

    def read(self):
        return self.place_nm


if __name__ == "__main__":
    raise SystemExit(driftd.stages.main(lambda options: MyStage()))
