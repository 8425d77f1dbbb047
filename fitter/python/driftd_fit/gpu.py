# SPDX-License-Identifier: MIT
"""Arrays that other libraries (CuPy, torch, numba, JAX) have on a GPU, by the two interfaces that they
share: the CUDA array interface, version 3 (numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html),
and DLPack (dmlc.github.io/dlpack)."""
from __future__ import annotations

import ctypes
import functools
import math
from typing import NamedTuple

import numpy as np

from .libdriftfit import FitError

_DLPACK_CUDA = 2
_DLPACK_KINDS = {0: "i", 1: "u", 2: "f"}
_LEGACY_STREAM = 1  # which the library waits for
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


class GpuArray(NamedTuple):
    """C-contiguous. `owner` keeps the memory."""
    pointer: int
    shape: tuple
    dtype: np.dtype
    writeable: bool
    owner: object

    @property
    def end(self) -> int:
        return self.pointer + math.prod(self.shape) * self.dtype.itemsize


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise FitError(f"CUDA's driver cannot be asked about the array: {error}") from None


def _wait_for(stream: int) -> None:
    if _driver().cuStreamSynchronize(ctypes.c_void_p(stream)):
        raise FitError(f"CUDA: waiting for the stream that writes the array ({stream:#x}) failed")


def _by_interface(name: str, given, interface: dict) -> GpuArray:
    if interface.get("mask") is not None:
        raise TypeError(f"{name}: its mask would be ignored; allowed are arrays without one")
    pointer, read_only = interface["data"]
    made = GpuArray(pointer or 0, tuple(interface["shape"]), np.dtype(interface["typestr"]),
                    not read_only, given)
    _require_contiguous(name, made, interface.get("strides"))
    stream = interface.get("stream")
    if stream not in (None, 0, _LEGACY_STREAM):
        _wait_for(stream)
    return made


def _by_dlpack(name: str, capsule) -> GpuArray:
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    if tensor.lanes != 1 or tensor.code not in _DLPACK_KINDS:
        raise TypeError(f"{name}: elements of DLPack's kind {tensor.code} with {tensor.lanes} lanes; "
                        "allowed are uint8, uint16 and float32")
    dtype = np.dtype(f"{_DLPACK_KINDS[tensor.code]}{tensor.bits // 8}")
    made = GpuArray((tensor.data or 0) + tensor.byte_offset, tuple(tensor.shape[:tensor.ndim]),
                    dtype, True, capsule)
    strides = ([s * dtype.itemsize for s in tensor.strides[:tensor.ndim]] if tensor.strides else None)
    _require_contiguous(name, made, strides)
    return made


def _require_contiguous(name: str, made: GpuArray, strides) -> None:
    if strides is None or 0 in made.shape:
        return
    expected = made.dtype.itemsize
    if len(strides) != len(made.shape):
        raise ValueError(f"{name}: {len(strides)} strides of {len(made.shape)} dimensions")
    for length, stride in zip(reversed(made.shape), reversed(tuple(strides))):
        if length > 1 and stride != expected:
            raise ValueError(f"{name}: an array on a GPU with gaps, or in another order, strides "
                             f"{tuple(strides)} bytes; allowed are C-contiguous ones: "
                             f"cupy.ascontiguousarray({name}), {name}.contiguous() of torch")
        expected *= length


def gpu_array(name: str, given) -> GpuArray | None:
    """What lies on a GPU; None: `given` does not. Waits for the stream that writes it, where the array
    tells of one; torch does not by the first interface: its default stream is waited for."""
    try:
        interface = getattr(given, "__cuda_array_interface__", None)
    except (RuntimeError, TypeError) as error:  # torch's, of a tensor that requires a gradient
        raise TypeError(f"{name}: {error}") from None
    if interface is not None:
        made = _by_interface(name, given, interface)
    elif hasattr(given, "__dlpack_device__") and given.__dlpack_device__()[0] == _DLPACK_CUDA:
        made = _by_dlpack(name, given.__dlpack__(stream=_LEGACY_STREAM))
    else:
        return None
    if made.pointer % max(made.dtype.itemsize, 1):
        raise ValueError(f"{name}: an array on a GPU at an address that is no multiple of its elements' "
                         f"{made.dtype.itemsize} bytes; allowed is a copy: {name}.copy()")
    return made


def device_of(array: GpuArray) -> int:
    """The GPU that has it."""
    device = ctypes.c_int(-1)
    if _driver().cuPointerGetAttribute(ctypes.byref(device), _DEVICE_ORDINAL,
                                       ctypes.c_void_p(array.pointer)):
        raise FitError("CUDA does not know on which GPU the array lies")
    return device.value
