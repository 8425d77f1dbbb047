# SPDX-License-Identifier: MIT
"""Stands for `pymmcore`: the part of its CMMCore that a stage needs, with two of DemoCamera's devices.

Names, arguments, results and errors are those of MMCore 12.5 under pymmcore's SWIG wrapper, by
micro-manager/mmCoreAndDevices 8431eb13 (MMCore/MMCore.h, MMCore.cpp, DeviceManager.h,
DeviceAdapters/DemoCamera/DemoStages.cpp) and micro-manager/pymmcore 4bb2d63c (src/pymmcore/__init__.pyi,
pymmcore_swig.i: which error becomes which exception). What is not here does not exist.
`test_stages_micromanager.py` holds it against the real core where there is one.

Attributes that begin with `test_` are for tests: they break devices, slow them and list what was called.
"""
import os
import time

STAGE, XY_STAGE, CORE = 5, 6, 10  # MM::DeviceType
_DEVICES = {"DHub": 17, "DStage": STAGE, "DXYStage": XY_STAGE}
_STEP_UM = 0.015  # CDemoXYStage::stepSize_um_


def _texts(method, *values):
    """`const char*`: a str, or None, which MMCore refuses by itself."""
    for number, value in enumerate(values, 2):
        if not (value is None or isinstance(value, str)):
            raise TypeError(f"in method 'CMMCore_{method}', argument {number} of type 'char const *'")


def _overloaded(method, ok):
    if not ok:
        raise TypeError(f"Wrong number or type of arguments for overloaded function 'CMMCore_{method}'.")


class _Device:
    def __init__(self, label, library, name):
        self.label, self.library, self.name, self.kind = label, library, name, _DEVICES[name]
        self.place_um = [0.0] * (2 if self.kind == XY_STAGE else 1)
        self.busy_until_s = 0.0


class CMMCore:
    test_calls: list = []  # (method, arguments), of all cores
    test_failing: dict = {}  # label: what its device says to every call
    test_slow_s = 0.0  # each call to a device
    test_busy_s = 0.001  # after each move

    def __init__(self):
        self._devices: dict[str, _Device] = {}
        self._xy = self._focus = ""

    def _called(self, *call):
        CMMCore.test_calls.append(call)

    def _device(self, label, kind=None):
        if label is None:
            raise RuntimeError("Null device label")
        if label not in self._devices:
            raise RuntimeError(f'No device with label "{label}"')
        device = self._devices[label]
        if kind is not None and device.kind != kind:
            raise RuntimeError(f'Device "{label}" is of the wrong type for the requested operation')
        time.sleep(self.test_slow_s)
        if label in self.test_failing:
            raise RuntimeError(f'Error in device "{label}": {self.test_failing[label]}')
        return device

    # --- devices ---
    def setDeviceAdapterSearchPaths(self, paths):
        if not all(isinstance(path, str) for path in paths):
            raise TypeError("in method 'CMMCore_setDeviceAdapterSearchPaths', argument 2 of type "
                            "'std::vector< std::string,std::allocator< std::string > > const &'")
        self._called("setDeviceAdapterSearchPaths", list(paths))

    def loadSystemConfiguration(self, fileName):
        _texts("loadSystemConfiguration", fileName)
        self._called("loadSystemConfiguration", fileName)
        if fileName is None:
            raise RuntimeError("Null filename")
        if not os.path.isfile(fileName):
            raise OSError(f'"{fileName}": File open failed.')
        with open(fileName, encoding="utf-8") as file:
            lines = [line.strip().split(",") for line in file if line.strip() and not line.startswith("#")]
        for line in lines:
            if line[0] == "Device":
                if line[1] in self._devices:
                    raise ValueError(f'The specified device label "{line[1]}" is already in use')
                if line[1] in self.test_failing:
                    raise RuntimeError(f'Error in device "{line[1]}": {self.test_failing[line[1]]}')
                self._devices[line[1]] = _Device(*line[1:4])
            elif line[:3] == ["Property", "Core", "XYStage"]:
                self._xy = line[3]
            elif line[:3] == ["Property", "Core", "Focus"]:
                self._focus = line[3]

    def unloadAllDevices(self):
        self._called("unloadAllDevices")
        self._devices, self._xy, self._focus = {}, "", ""

    def getLoadedDevices(self):
        return (*self._devices, "Core")

    def getLoadedDevicesOfType(self, devType):
        if not isinstance(devType, int):
            raise TypeError("in method 'CMMCore_getLoadedDevicesOfType', argument 2 of type 'MM::DeviceType'")
        return tuple(label for label, device in self._devices.items() if device.kind == devType)

    def getXYStageDevice(self):
        return self._xy

    def getFocusDevice(self):
        return self._focus

    def getDeviceLibrary(self, label):
        _texts("getDeviceLibrary", label)
        return self._device(label).library

    def getDeviceName(self, label):
        _texts("getDeviceName", label)
        return self._device(label).name

    def getVersionInfo(self):
        return "MMCore version 12.5.0"

    # --- stages ---
    def deviceBusy(self, label):
        _texts("deviceBusy", label)
        self._called("deviceBusy", label)
        return label != "Core" and time.monotonic() < self._device(label).busy_until_s

    def _move(self, device, place_um):
        device.place_um = place_um
        device.busy_until_s = time.monotonic() + self.test_busy_s

    def setPosition(self, *arguments):
        _overloaded("setPosition", 1 <= len(arguments) <= 2 and isinstance(arguments[-1], (float, int)) and
                    all(label is None or isinstance(label, str) for label in arguments[:-1]))
        self._called("setPosition", *arguments)
        device = self._device(arguments[0] if len(arguments) == 2 else "", STAGE)
        if not -300 <= arguments[-1] <= 300:  # CDemoStage's limits
            raise RuntimeError(f'Error in device "{device.label}": Position out of range (103)')
        self._move(device, [float(arguments[-1])])

    def getPosition(self, *arguments):
        _overloaded("getPosition", len(arguments) <= 1 and all(
            label is None or isinstance(label, str) for label in arguments))
        self._called("getPosition", *arguments)
        return self._device(arguments[0] if arguments else "", STAGE).place_um[0]

    def setXYPosition(self, *arguments):
        _overloaded("setXYPosition", 2 <= len(arguments) <= 3 and
                    all(isinstance(um, (float, int)) for um in arguments[-2:]) and
                    all(label is None or isinstance(label, str) for label in arguments[:-2]))
        self._called("setXYPosition", *arguments)
        device = self._device(arguments[0] if len(arguments) == 3 else self._xy, XY_STAGE)
        self._move(device, [round(um / _STEP_UM) * _STEP_UM for um in arguments[-2:]])

    def getXYPosition(self, *arguments):
        _overloaded("getXYPosition", len(arguments) <= 1 and all(
            label is None or isinstance(label, str) for label in arguments))
        self._called("getXYPosition", *arguments)
        return list(self._device(arguments[0] if arguments else self._xy, XY_STAGE).place_um)
