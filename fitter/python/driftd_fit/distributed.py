# SPDX-License-Identifier: MIT
"""``driftfit --every-spot`` on Dask: blocks of frames on its workers, each block a file that is there whole or not
at all, so that a worker that dies costs the block it was at. Needs python3-distributed; for arrays also
python3-h5py here.

    client = dask.distributed.Client("scheduler:8786")
    driftd_fit.distributed.localize("movie.tif", "out", client, gain=0.46, offset=100)

Workers want one thread each, the program driftfit and this module; all see the same folders under the same names.
A driftfit ends with the worker that started it (setpriv of util-linux).
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
import subprocess
import uuid

import dask
import dask.array as da
import numpy as np
from dask.distributed import wait

from . import arguments, instruction_set, libdriftfit
from . import localize as localize_frames

#: Of an array, by which its blocks are told from another one's.
_FRAMES_SEEN = 8


def localize(stack, out, client, *, blocks: int | None = None, program: str = "driftfit", **options) -> str:
    """Finds and fits the spots of all frames, and writes ``OUT_locs.hdf5`` with its ``.yaml``.

    Parameters
    ----------
    stack : path of whatever driftfit reads, or of a Zarr store; or an array (dask, Zarr, h5py, numpy)
        The pieces of an array are joined to whole frames, whatever it was cut into.
    out : path
        What the names of the results begin with.
    client : dask.distributed.Client
    blocks : int
        How many; default four a worker, of arrays what Dask takes for a piece.
    program : path of driftfit on the workers
    **options
        Of a path: driftfit's, ``min_net_gradient=500`` for ``--min-net-gradient 500``. Of an array: those of
        `driftd_fit.localize`. Not those that each block has of its own, as threads, of which it is 1.

    Returns
    -------
    What was done, in words. Blocks that are there from a call before, which may have been killed, are not done again.
    """
    out = os.path.abspath(out)
    if blocks is not None:
        blocks = arguments.number("blocks", blocks, arguments.Range(1, 10_000, whole=True))
    if isinstance(stack, np.memmap):
        raise TypeError("stack is a numpy.memmap, whose pixels would travel with the tasks; allowed is its path")
    if not isinstance(stack, (str, os.PathLike)):
        return _of_array(da.asarray(stack), out, client, blocks, options)
    if any((pathlib.Path(stack) / name).exists() for name in (".zarray", "zarr.json")):
        return _of_array(da.from_zarr(str(stack)), out, client, blocks, options)
    words = _words(options)
    n = blocks or _shards_there(out) or 4 * len(client.scheduler_info()["workers"])
    fit = ["setpriv", "--pdeathsig", "KILL", program, os.path.abspath(stack), "--every-spot", "--no-progress", "--threads=1", *words, "-o", out]
    _done(client.map(_run, [[*fit, "--shard", f"{i}/{n}"] for i in range(1, n + 1)], pure=False, retries=2))
    return _run([program, "merge", "-o", out, *(["--overwrite"] if options.get("overwrite") else [])])


def _words(options: dict) -> list:
    """Options as driftfit's."""
    _check_own(options, "driftfit", "shard", "threads", "output", "help", "version")
    for name, value in options.items():
        if not np.isscalar(value) and not isinstance(value, os.PathLike):
            raise TypeError(f"{name} is {value!r}; allowed for a stack that driftfit reads are texts, numbers and paths"
                            + (", or to leave it out" if value is None else ""))
    return [f"--{name.replace('_', '-')}={os.fspath(value) if isinstance(value, os.PathLike) else value}"
            for name, value in options.items()]


def _check_own(options: dict, program: str, *own: str) -> None:
    for name in own:
        if name in options:
            raise TypeError(f"{name} is not an option here: what {program} is told by it, each block is told by this call")


def _shards_there(out: str) -> int:
    """How many shards a call before, with perhaps more workers or fewer, cut the stack into; 0: none are there."""
    name = re.compile(re.escape(os.path.basename(out)) + r"_shard-\d+-of-(\d+)_(thunderstorm\.csv|locs\.(hdf5|yaml))")
    found = (name.fullmatch(file) for file in os.listdir(os.path.dirname(out)))
    return max((int(match[1]) for match in found if match), default=0)


def _of_array(frames, out: str, client, blocks: int | None, options: dict) -> str:
    """Blocks are files of numpy, of which the name says what they are of, and what made them: the array by some frames
    spread over it, of which no other recording has all."""
    _check_own(options, "driftd_fit.localize", "first", "threads")
    if frames.ndim != 3:
        raise ValueError(f"stack has shape {frames.shape}; allowed is (n, height, width)")
    for there in f"{out}_locs.hdf5", f"{out}_locs.yaml":
        if os.path.lexists(there):
            raise FileExistsError(f"{there} exists already; remove it, or take another name")
    seen = sorted({i * (len(frames) - 1) // (_FRAMES_SEEN - 1) for i in range(_FRAMES_SEEN)}) if len(frames) else []
    seen = [frame.tobytes() for frame in client.gather(client.compute([frames[i] for i in seen]))]
    made_by = sorted(set(client.run(_version).values()))
    frames = frames.rechunk({0: -(-len(frames) // blocks) if blocks else "auto", 1: -1, 2: -1})
    ends = np.cumsum([0, *frames.chunks[0]]).tolist()
    token = dask.base.tokenize(frames.shape, str(frames.dtype), sorted(options.items()), seen, made_by)[:8]
    files = [pathlib.Path(f"{out}_block-{token}-{a}-{b}.npy") for a, b in zip(ends, ends[1:])]
    calls = [dask.delayed(_block)(piece, first, str(file), options) for piece, first, file
             in zip(frames.to_delayed().ravel(), ends, files) if not file.exists()]
    _done(client.compute(calls, retries=2))
    said = _join(files, frames, out, options, made_by)
    _remove_blocks(out, token)
    return said


def _remove_blocks(out: str, token: str) -> None:
    """Those of this array and these options, cut anyhow, and what killed workers left of them; nothing else that begins
    as they do is driftfit's to remove."""
    folder, name = os.path.split(out)
    own = re.compile(re.escape(f"{name}_block-{token}-") + r"\d+-\d+\.npy(\.[0-9a-f-]{36})?")
    for file in os.listdir(folder):
        if own.fullmatch(file):
            pathlib.Path(folder, file).unlink(missing_ok=True)


def _version() -> str:
    """Of the library that fits here, with the instruction set, which a CPU's results depend on to the bit."""
    library = libdriftfit.loaded()
    library.driftfit_version.restype = ctypes.c_char_p
    return f"libdriftfit {library.driftfit_version().decode()} ({instruction_set()})"


def _block(frames, first: int, file: str, options: dict) -> None:
    if not os.path.exists(file):  # by a worker that died, or was slow to say so
        locs = localize_frames(frames, first=first, threads=1, **options)
        part = f"{file}.{uuid.uuid4()}"
        with open(part, "wb") as written:
            np.save(written, locs)
        os.replace(part, file)


def _join(files: list, frames, out: str, options: dict, made_by: list) -> str:
    import h5py
    for file in files:  # all of them before anything is written
        _read(file)
    part, total = f"{out}_locs.hdf5.part", 0
    with h5py.File(part, "w") as joined:
        for locs in map(_read, files):
            if total == 0 and "locs" not in joined:
                joined.create_dataset("locs", (0,), locs.dtype, maxshape=(None,), chunks=(2048,))
            joined["locs"].resize((total + len(locs),))
            joined["locs"][total:] = locs
            total += len(locs)
    count, height, width = frames.shape
    os.replace(part, f"{out}_locs.hdf5")
    pathlib.Path(f"{out}_locs.yaml").write_text("".join(
        ["---\n", f"Data Type: {frames.dtype}\nFrames: {count}\nHeight: {height}\nWidth: {width}\n---\n",
         f"Generated by: driftd_fit.distributed, {' and '.join(made_by)}\n", *(f"{name}: {value}\n" for name, value in options.items()
                                                     if np.isscalar(value))]))
    return f"{len(files)} blocks, {count} frames, {total} localizations\nwritten: {out}_locs.hdf5, {out}_locs.yaml\n"


def _read(file) -> np.ndarray:
    try:
        return np.load(file)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{file} cannot be read ({error}); remove it, and it is done again") from None


def _run(call: list) -> str:
    done = subprocess.run([str(word) for word in call], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"{call[0]} ended with {done.returncode}")
    return done.stdout


def _done(futures: list) -> None:
    wait(futures)
    for future in futures:
        future.result()
