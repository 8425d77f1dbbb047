# SPDX-License-Identifier: MIT
"""Any stage that Micro-Manager knows, through its core (MMCore), as a driver of driftd.

    python3 -m driftd.stages.micromanager --config MMConfig.cfg --xy XYStage
    python3 -m driftd.stages.micromanager --config MMConfig.cfg --stages PiezoX PiezoY
    python3 -m driftd.stages.micromanager --config MMConfig.cfg --axes z --focus PiezoZ --z-min-nm 0 --z-max-nm 100000

Needs ``pymmcore``, which Debian and Ubuntu do not package (``pip install pymmcore``), and Micro-Manager's
device adapters of the same device interface version. A fallback for stages that driftd-stage does not
know: each move goes through Micro-Manager's adapter, whose own pauses are the move's
(docs/use/stages-python.md).

Calls and errors are those of MMCore 12 (micro-manager/mmCoreAndDevices, ``MMCore/MMCore.h``) as pymmcore
has them (``src/pymmcore/__init__.pyi``, ``pymmcore_swig.i``).
"""
from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Sequence

from . import main
from .contract import Axis, Health, Refused, SettingsError, Stage

STAGE_DEVICE, XY_STAGE_DEVICE = 5, 6  # MM::DeviceType, MMDevice/MMDeviceConstants.h
#: What pymmcore makes of a CMMError, by its code (``cmmerror_swig_exception_code``).
CORE_ERRORS = (RuntimeError, ValueError, OSError, IndexError, MemoryError)


def load_core() -> Any:
    """A new core. Raises ImportError, which says what to do about it."""
    try:
        import pymmcore
    except ImportError as error:
        raise ImportError(f"no Micro-Manager core: {error}. `pip install pymmcore`, in the Python that "
                          f"runs this ({sys.executable})") from error
    return pymmcore.CMMCore()


class MicroManagerStage(Stage):
    """An XY stage, or two one-axis stages, and a focus drive of a Micro-Manager core.

    Parameters
    ----------
    config : str or path, optional
        Micro-Manager's system configuration (``.cfg``). Without one `core` has its devices already.
    xy : str, optional
        Label of an XY stage. Its adapter rounds targets to steps of its own, 10 nm or 15 nm for many.
    stages : sequence of two str, optional
        Labels of the one-axis stages for x and y instead: many adapters pass these on unrounded.
        Without either, the XY stage that the configuration names as its own.
    focus : str, optional
        Label of the one-axis stage that moves z. Without, the focus device that the configuration names as its own.
    axes : str
        ``xy``, ``xyz`` or ``z``: which of them there are.
    adapters : sequence of str
        Folders of the device adapters.
    travel_um : sequence of two float, optional
        The stage's travel, both axes: Micro-Manager does not tell it.
    resolution_nm : float, optional
        The step that targets are rounded to, for the report: Micro-Manager does not tell it either.
    core : pymmcore.CMMCore, optional
        Instead of a new one.
    """

    driver = "micromanager"

    def __init__(self, config: str | os.PathLike | None = None, *, xy: str | None = None,
                 stages: Sequence[str] | None = None, focus: str | None = None, axes: str = "xy",
                 adapters: Sequence[str] = (),
                 travel_um: Sequence[float] | None = None, resolution_nm: float | None = None,
                 core: Any = None) -> None:
        if xy and stages:
            raise SettingsError("an XY stage or two stages of one axis, not both")
        if stages is not None and (len(stages) != 2 or stages[0] == stages[1]):
            raise SettingsError(f"two stages of one axis are needed, not {', '.join(stages)}")
        if focus and "z" not in axes or (xy or stages) and "x" not in axes:
            raise SettingsError(f"axes are {axes}: a focus drive is for xyz or z, a stage in x and y for xy or xyz")
        if focus and focus in (stages or ()):
            raise SettingsError(f"stage `{focus}` is no focus drive and x or y besides")
        if config is None and core is None:
            raise SettingsError("Micro-Manager's configuration is needed, or a core that has its devices")
        if travel_um is not None and not travel_um[0] < travel_um[1]:
            raise SettingsError(f"a travel of {travel_um[0]} to {travel_um[1]} um is none")
        self._core = load_core() if core is None else core
        self._config = None if config is None else os.fspath(config)  # the core takes str only
        self._xy, self._stages, self._focus = xy, tuple(stages or ()), focus
        self._has_xy, self._has_z = "x" in axes, "z" in axes
        self._adapters, self._resolution_nm = [os.fspath(folder) for folder in adapters], resolution_nm
        self._travel_nm = (None, None) if travel_um is None else tuple(1000.0 * um for um in travel_um)
        self._loaded = config is None

    def connect(self) -> list[Axis]:
        """Loads the configuration, unless the devices are there and answer."""
        if not (self._loaded and self._answers()):
            self._load()
        if self._has_xy and not self._stages and not self._xy:
            self._xy = self._core.getXYStageDevice()
            if not self._xy:
                raise SettingsError("the configuration names no XY stage of its own: say which" +
                                    self._choice(XY_STAGE_DEVICE))
        if self._has_z and not self._focus:
            self._focus = self._core.getFocusDevice()
            if not self._focus:
                raise SettingsError("the configuration names no focus device of its own: say which" +
                                    self._choice(STAGE_DEVICE))
        for label in self._lateral():
            self._check(label, STAGE_DEVICE if self._stages else XY_STAGE_DEVICE)
        names = (self._stages or ("X", "Y")) if self._has_xy else ()
        axes = [Axis(name, *self._travel_nm, self._resolution_nm) for name in names]
        if self._has_z:
            self._check(self._focus, STAGE_DEVICE)
            axes.append(Axis(self._focus))
        return axes

    def _answers(self) -> bool:
        try:
            self.read()
        except CORE_ERRORS:
            return self._config is None  # nothing to load: connect() says what is missing
        return True

    def _load(self) -> None:
        if not os.path.isfile(self._config):
            raise SettingsError(f"there is no file {self._config}")
        self._loaded = False
        self._core.unloadAllDevices()
        if self._adapters:
            self._core.setDeviceAdapterSearchPaths(self._adapters)
        self._core.loadSystemConfiguration(self._config)
        self._loaded = True

    def _lateral(self) -> tuple[str, ...]:
        return (self._stages or (self._xy,)) if self._has_xy else ()

    def _labels(self) -> tuple[str, ...]:
        return self._lateral() + ((self._focus,) if self._has_z else ())

    def _check(self, label: str, kind: int) -> None:
        if label not in self._core.getLoadedDevicesOfType(kind):
            other = STAGE_DEVICE + XY_STAGE_DEVICE - kind
            what = ("stage of one axis", "XY stage")[kind == XY_STAGE_DEVICE]
            if label in self._core.getLoadedDevicesOfType(other):
                raise SettingsError(f"device `{label}` is no {what}" + self._choice(kind))
            raise SettingsError(f"there is no device `{label}`" + self._choice(kind))

    def _choice(self, kind: int) -> str:
        labels = ", ".join(self._core.getLoadedDevicesOfType(kind)) or "none"
        return f"; {('stages of one axis', 'XY stages')[kind == XY_STAGE_DEVICE]} there: {labels}"

    def description(self) -> str:
        core = self._core
        devices = " and ".join(f"{core.getDeviceLibrary(label)} {core.getDeviceName(label)} `{label}`"
                               for label in self._labels())
        rounds = ", rounds to steps of its own" if self._xy and self._resolution_nm is None else ""
        return f"{devices}{rounds}, {core.getVersionInfo()}"

    def move_to(self, positions_nm: Sequence[float]) -> None:
        """Sets the target. What the core refuses is `Refused`: `read` finds out if the stage is gone."""
        # The calls of this move, in the order of x, y, z: an axis without a target stays.
        calls = []
        targets_um = [None if nm is None else nm / 1000 for nm in positions_nm]
        if self._has_xy and targets_um[0] is not None:
            if self._stages:
                calls += [(self._core.setPosition, label, um) for label, um in zip(self._stages, targets_um)]
            else:
                calls.append((self._core.setXYPosition, self._xy, *targets_um[:2]))
        if self._has_z and targets_um[-1] is not None:
            calls.append((self._core.setPosition, self._focus, targets_um[-1]))
        for number, (call, *arguments) in enumerate(calls):
            try:
                call(*arguments)
            except CORE_ERRORS as error:
                if number:  # no refusal: one axis went, so the driver looks where they are
                    raise
                raise Refused(str(error)) from error

    def read(self) -> list[float]:
        places_um: list[float] = []
        if self._stages:
            places_um += [self._core.getPosition(label) for label in self._stages]
        elif self._has_xy:
            places_um += self._core.getXYPosition(self._xy)
        if self._has_z:
            places_um.append(self._core.getPosition(self._focus))
        return [1000 * um for um in places_um]

    def health(self) -> Health:
        return Health(on_target=not any(self._core.deviceBusy(label) for label in self._labels()))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="driftd.stages.micromanager",
        description="Moves a stage of Micro-Manager to where driftd's corrections say.")
    parser.add_argument("--config", required=True, metavar="FILE",
                        help="Micro-Manager's configuration, .cfg")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--xy", metavar="LABEL", help="an XY stage (the configuration's own)")
    parser.add_argument("--focus", metavar="LABEL", help="the stage of one axis that moves z (the configuration's own)")
    which.add_argument("--stages", nargs=2, metavar="LABEL", help="two stages of one axis, x and y: finer")
    parser.add_argument("--adapters", action="append", default=[], metavar="DIR",
                        help="folder of device adapters; may be given again")
    parser.add_argument("--travel-um", nargs=2, type=float, metavar=("MIN", "MAX"),
                        help="the stage's travel, both axes")
    parser.add_argument("--resolution-nm", type=float, metavar="N", help="what its adapter rounds to")
    return parser


def make_stage(options: argparse.Namespace) -> MicroManagerStage:
    return MicroManagerStage(options.config, xy=options.xy, stages=options.stages,
                             focus=options.focus, axes=options.axes,
                             adapters=options.adapters, travel_um=options.travel_um,
                             resolution_nm=options.resolution_nm)


if __name__ == "__main__":
    sys.exit(main(make_stage, make_parser()))
