# SPDX-License-Identifier: MIT
"""Emulators of stage controllers, for drivers without hardware. README.md says what each is after.

`program` reads the options, `emulator` is the loop that owns everything, `transport` is the wire,
`stage` the axes behind the controller, `simulated_stage` the way to driftd-sim, `control` the faults;
one module for each kind of controller answers what comes. One thread; times are CLOCK_MONOTONIC in ns.
"""
