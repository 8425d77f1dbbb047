# SPDX-License-Identifier: MIT
"""Stage drivers for driftd in Python (docs/use/stages-python.md). Needs pyzmq, and the program driftd-stage.

    import driftd.stages

    class MyStage(driftd.stages.Stage):
        def connect(self):            # open it; move nothing
            return [driftd.stages.Axis("1", 0, 100_000), driftd.stages.Axis("2", 0, 100_000)]
        def move_to(self, positions_nm): ...
        def read(self): ...

    driftd.stages.run(MyStage())

The program ``driftd-stage`` does all the rest: the newest correction only and none that expired, zeros, limits,
reconnection, and the reports to the daemon. `run` starts it; with ``--serve`` such a program is one that it starts.
``driftd.stages.micromanager`` drives what Micro-Manager knows.
"""
from .contract import CONDITIONS, Axis, Health, Refused, SettingsError, Stage
from .program import Direction, Driver, Limits, Settings, add_options, main, run, settings

__all__ = ["CONDITIONS", "Axis", "Direction", "Driver", "Health", "Limits", "Refused", "Settings",
           "SettingsError", "Stage", "add_options", "main", "run", "settings"]
