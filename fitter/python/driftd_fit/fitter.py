# SPDX-License-Identifier: MIT
"""`Fitter`: a back end with its memory."""
from __future__ import annotations

import ctypes
from typing import Callable, Mapping, Sequence

import numpy as np

from . import arguments, clipped, gpu, interrupts, libdriftfit, negative_light
from .libdriftfit import BAD_ARGUMENT, CANCELLED, FitError
from .records import RESULT, STATUS, SWARM_REPORT
from .settings import ESTIMATORS, settings_of, swarm_of
from .whole_frames import FITTING, WholeFrames
from .work import Work, frame_work, image_work, pointer

BACKENDS = {"auto": 0, "cpu": 1, "cuda": 2}


class Fitter(WholeFrames):
    """A back end with its memory, for many calls; `fit` makes one for a single call.

    Parameters
    ----------
    backend : "auto", "cpu" or "cuda"
        auto: a GPU if there is one.
    threads : int
        Of the CPU; 0: one per core.
    devices : sequence of int
        GPUs that share the work; none: the first.

    Raises
    ------
    LibraryMissing
        There is no libdriftfit. It is an ImportError and a FitError.
    FitError
        The GPU cannot be had.
    ValueError
        A back end that is none, or a number that is not allowed.
    """

    _handle, _fitting, _calls = None, False, 0

    def __init__(self, backend: str = "auto", threads: int = 0, devices: Sequence[int] = ()):
        self._handle = ctypes.c_void_p()
        number = arguments.one_of("backend", backend, BACKENDS)
        library = libdriftfit.loaded()
        threads = arguments.number("threads", threads, arguments.THREADS)
        devices = [arguments.number("a device", device, arguments.DEVICE) for device in devices]
        numbers = (ctypes.c_int32 * len(devices))(*devices)
        message = ctypes.create_string_buffer(512)
        code = library.driftfit_create(number, threads, numbers if devices else None, len(devices),
                                       ctypes.byref(self._handle), message, len(message))
        if code:
            raise (ValueError if code == BAD_ARGUMENT else FitError)(message.value.decode())

    @property
    def backend(self) -> str:
        """What fits now: "cpu" or "cuda"."""
        return libdriftfit.loaded().driftfit_backend(self._handle).decode()

    @property
    def backend_reason(self) -> str:
        """Why: what was asked for, or what keeps "auto" from using a GPU."""
        return libdriftfit.loaded().driftfit_backend_reason(self._handle).decode()

    def close(self) -> None:
        """Gives the memory back; twice does no harm.

        Raises
        ------
        RuntimeError
            It is fitting: in `progress`, or another thread.
        """
        if self._fitting:
            raise RuntimeError(FITTING)
        if self._handle:
            libdriftfit.loaded().driftfit_destroy(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Fitter":
        return self

    def __exit__(self, error, *_) -> None:
        if not (error and self._fitting):  # let that error out; the memory goes with the last fit
            self.close()

    def __del__(self) -> None:
        self.close()

    def fit(self, images: np.ndarray, model: str = "circular", estimator: str = "implicit",
            start: np.ndarray | None = None,
            progress: Callable[[int, int], bool | None] | None = None, *,
            levels: np.ndarray | None = None, variances: np.ndarray | None = None,
            bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
            out: np.ndarray | None = None, angles: np.ndarray | None = None,
            details: np.ndarray | None = None, **options: float) -> np.ndarray:
        """Fits every image.

        Parameters
        ----------
        images : array, shape (n, side, side) or (side, side)
            uint8, uint16 or float32; 4 to 64 pixels a side. Not copied when C-contiguous. Arrays on a
            GPU that the fitter uses (CuPy, torch, whatever has ``__cuda_array_interface__`` or
            DLPack) are fitted where they lie; they have to be C-contiguous, and so `start`, `levels`
            and `variances` may be, with all columns and float32.
        model : "circular", "elliptical" or "rotated"
            One width; one along each axis; or one along each of two axes at right angles, sigma_x along
            the one at an angle that `details` tell.
        estimator : "implicit", "least_squares", "weighted_least_squares" or "poisson"
            The first searches position and widths alone, and is the fastest; the others search all
            parameters. weighted_least_squares needs `variances`; poisson is the maximum likelihood
            of Poisson noise in electrons (`gain`; unknown: pixels are electrons).
        start : array, shape (n,), dtype `START`; or shape (n, 3) of x, y, sigma; or (n, 4)
            Start values; None: each fit estimates its own.
        progress : callable
            Called as ``progress(done, n)`` after each block; a true result stops the fitting, and
            what is not done stays ``bad_input``.
        levels : array, shape (n,), dtype `LEVELS`; or shape (n, 2) of amplitude, background
            Start values of these; None: those that fit each start best.
        variances : array, the shape of images or (side, side) for all of them
            Variance of each pixel, pixel units squared: to poisson its read noise, to
            weighted_least_squares all of it, the light's included (of what is expected, not of each pixel's
            own count: that would make photons too few); not with the others, which do not use them.
            Infinite: the pixel is not there; it still has to be finite and below ``saturation``.
        bounds : mapping of a name of `PARAMETERS` to (lower, upper)
            Each a number, or an array of shape (n,). Not with implicit; sigma_y not of the circular model,
            whose only width is sigma_x.
        fixed : names of `PARAMETERS`, and "angle" of the rotated model
            These keep their start values. Not with implicit; sigma_y not of the circular model.
        out : array, shape (n,), dtype `RESULT`
            Receives the results and is returned: an array that is used again, or of `pinned`, spares a
            new one. What is not done, by `progress` or an error, is ``bad_input`` there, too. Or on
            the GPU, without `progress`, shape (n, 14) of float32: the columns are the fields of `RESULT`,
            the last one is the four bytes of status and iterations.
        angles : array, shape (n,)
            Of the rotated model, beside `start`: rad, from x towards y; None: 0. A quarter of a turn
            more and the widths exchanged make the same spot, which is told by the angle nearest to
            this; half turns where a width or the angle is fixed or bounded, or images have bounds of their own.
        details : array, shape (n,), dtype `DETAILS`
            Receives angles and covariances; None: they are not wanted. What is not done is NaN, after an error, too.
            Or on the GPU, without `progress`, shape (n, 51) of float32.
        **options
            gain : electrons per pixel unit, 1e-12 to 1e12; None or 0 (default): not known.
                Uncertainties then come from the residuals.
            offset : pixel value without light (0). A RuntimeWarning tells of images whose background is below.
            read_noise : electrons rms (0), 0 or more.
            excess_noise : variance of the signal over that of its photons, 1 (default) to 16: 2 for an
                EMCCD. To the likelihood and to uncertainties by `gain`; the gain is the whole one, and
                the read noise that referred to before the multiplication.
            integrated : True: a pixel is the Gaussian's mean over its area; False (default): its
                value at the pixel's centre, which makes sigma some 1 / (24 sigma) px larger.
            saturation : pixels at or above are bad input; 0 (default): none are, and a RuntimeWarning tells of
                images whose spots are cut off at their top.
            min_background : limit of the background (-inf: none).
            spots_only : True (default): a minimum that is no spot is not converged; False: any
                minimum will do.
            max_iterations : 1 to 255 (20).
            lambda_start, lambda_max : damping, 1e-9 to 1e9 (0.01, 1e4).
            min_chi_square : stop below this chi-square (0), pixel units squared; by poisson this and
                the next are of Pearson's chi-square, not of the deviance that results tell.
            min_decrease : stop below this relative decrease of chi-square, 0 to 1 (1e-6).
            min_step : stop when every parameter changes by less, relatively, and a likelihood hardly, 0 to 1 (1e-4).

        Returns
        -------
        array, shape (n,), dtype `RESULT`
            A fit that failed says so in ``status`` (`STATUS`); pixels that are NaN give bad_input.

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind; the text says what was found and what is allowed.
        FitError
            What the GPU reported.
        """
        self._check_open()
        settings = settings_of(model, estimator, fixed, options)
        work = image_work(images, settings, start, levels, variances, bounds, out, angles, details)
        self._call(libdriftfit.loaded().driftfit_fit_images, [ctypes.byref(settings)], work, [], progress)
        self._look_at(lambda: work.pixels, settings)
        return work.results if out is None else out

    def fit_frames(self, frames: np.ndarray, coordinates: np.ndarray, side: int,
                   model: str = "circular", estimator: str = "implicit",
                   start: np.ndarray | None = None,
                   progress: Callable[[int, int], bool | None] | None = None, *,
                   gain_map: np.ndarray | None = None, offset_map: np.ndarray | None = None,
                   variance_map: np.ndarray | None = None, levels: np.ndarray | None = None,
                   bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
                   out: np.ndarray | None = None, angles: np.ndarray | None = None,
                   details: np.ndarray | None = None, **options: float) -> np.ndarray:
        """Fits the ROIs of whole frames: what `fit` makes of the same ROIs cut by hand, with ``x``
        and ``y`` in the frame. They are cut a piece at a time by the threads that fit them; for a GPU
        in blocks by all threads, or by itself from frames that lie there.

        With `gain_map` or `offset_map`, ``(pixel - offset) * gain`` is fitted in place of each pixel,
        as float32; without one of them the option ``offset``, or no gain, takes its place. With
        `gain_map` that is electrons: ``amplitude``, ``background``, `levels`, `bounds` and
        ``min_background`` are then electrons, too. For sCMOS cameras, with "poisson" (Huang et al.
        2013, Nature Methods 10, 653, whose gain is the inverse of this one).

        Parameters
        ----------
        frames : array, shape (n, height, width) or (height, width)
            uint8, uint16 or float32; a memory map, too. Not copied where the pixels of a row lie side
            by side; a view with gaps between them, or turned over, is. Or an array on a GPU, as images of
            `fit`: then the maps lie there, too, and what else is given as one likes.
        coordinates : array of numbers, shape (m, 3) of x, y, frame; or, of one frame, (m, 2) of x, y
            The pixel in a ROI's middle, its pixel ``side // 2``: x counts columns, y rows, frames
            count from 0. x and y are rounded. A ROI that does not lie in its frame with all its pixels, and one
            whose x or y is NaN, ends as ``bad_input``; the others do not care. On a GPU: (m, 3) of int32, of
            which a frame that is not there is ``bad_input``, too.
        side : int
            Of the ROIs, 4 to 64 pixels.
        model, estimator, progress, fixed
            As in `fit`.
        start : as in `fit`, m of them
            x and y in the frame.
        gain_map : array, shape (height, width)
            Electrons per pixel unit. Not with the option ``gain``. A pixel whose gain is not above 0
            makes ``bad_input`` of the ROIs that it is in.
        offset_map : array, shape (height, width)
            Pixel values without light. Not with the option ``offset``.
        variance_map : array, shape (height, width)
            As `variances` of `fit`. `driftctl calibrate camera --dark-only --maps` measures that for
            poisson, and the map of offsets. Not with implicit and least_squares.
        levels : as in `fit`, m of them
        bounds : as in `fit`, arrays of shape (m,)
            Those of x and y count from the ROI's first pixel.
        out, angles, details : as in `fit`, m of them
        **options
            As in `fit`; ``saturation`` is compared with the pixels as they come.

        Returns
        -------
        array, shape (m,), dtype `RESULT`
            ``x`` and ``y`` in the frame, the centre of whose first pixel is (0, 0).

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind, frames that are not there; the text says what was found
            and what is allowed.
        FitError
            What the GPU reported, or a libdriftfit without this call.
        """
        self._check_open()
        if not hasattr(libdriftfit.loaded(), "driftfit_fit_frames"):
            raise FitError("fit_frames: the libdriftfit that is loaded is older and does not know it")
        settings = settings_of(model, estimator, fixed, options)
        work = frame_work(frames, coordinates, side, settings, start, levels, bounds,
                           {"gain_map": gain_map, "offset_map": offset_map,
                            "variance_map": variance_map}, out, angles, details)
        self._call(libdriftfit.loaded().driftfit_fit_frames, [ctypes.byref(settings)], work, [], progress)
        self._look_at(work.some_rois, settings, None if offset_map is None else lambda: work.some_rois("offset_map"))
        return work.results if out is None else out

    def search(self, images: np.ndarray, model: str = "circular", estimator: str = "implicit",
               progress: Callable[[int, int], bool | None] | None = None, *,
               particles: int = 256, iterations: int = 30, seed: int = 0,
               levels: np.ndarray | None = None, variances: np.ndarray | None = None,
               bounds: Mapping[str, tuple] | None = None, fixed: Sequence[str] = (),
               details: np.ndarray | None = None, **options: float) -> tuple[np.ndarray, np.ndarray]:
        """Fits every image from where a particle swarm found its least squares.

        The swarm searches the whole image and needs no start value. Where the model does not
        describe the whole image, bound the widths (with another estimator than implicit): bounds are
        the swarm's domain, too.

        Parameters
        ----------
        images, model, estimator, progress, levels, variances, bounds, details
            As in `fit`. The swarm itself sees all pixels, whatever `variances` say of them, and looks for a
            round spot where the model is "rotated".
        particles : int
            A whole multiple of 16, 16 to 1024.
        iterations : int
            Of the swarm, 1 to 1000; all are made. Those of the fit end by `max_iterations`.
        seed : int, 0 to 2**64 - 1
            The same seed and number of an image give the same search.
        fixed : names of `PARAMETERS`
            Amplitude and background alone, with `levels`. Not with implicit.
        **options
            inertia : 0 to 2 (0.7298).
            own_pull, swarm_pull : towards the particle's and the swarm's best place, 0 to 4
                (1.4962).
            max_velocity : in an iteration, of the domain's extent, 0.001 to 1 (0.5).
            spread_of_last : best places that the spread is taken over, 2 to 32 (10).
            first_image : number of the first image, 0 to 2**64 - 1 (0): calls that count on give
                what one gives.
            And those of the fit, as in `fit`.

        Returns
        -------
        fits : array, shape (n,), dtype `RESULT`
            As from `fit`.
        found : array, shape (n,), dtype `SWARM_REPORT`
            What the swarm found before the fit improved it; ``chi_square`` is NaN for pixels that
            are bad input, and for images not done.

        Raises
        ------
        TypeError, ValueError
            Arrays or options of another kind; the text says what was found and what is allowed.
        FitError
            What the GPU reported.
        """
        self._check_open()
        swarm = swarm_of({"particles": particles, "iterations": iterations, "seed": seed}
                       | {name: options.pop(name) for name in arguments.SWARM_OPTIONS
                          if name in options})
        settings = settings_of(model, estimator, fixed, options)
        work = image_work(images, settings, None, levels, variances, bounds, details=details)
        found = np.zeros(len(work.results), SWARM_REPORT)
        found["chi_square"] = np.nan
        self._call(libdriftfit.loaded().driftfit_search, [ctypes.byref(settings), ctypes.byref(swarm)], work,
                   [found.ctypes.data], progress)
        self._look_at(lambda: work.pixels, settings)
        return work.results, found

    def _check_open(self) -> None:
        if not self._handle:
            raise ValueError("this Fitter is closed")

    def _look_at(self, images: Callable, settings: libdriftfit.Options, offsets: Callable | None = None) -> None:
        """Looks in the first call, the second, the fourth and so on: it takes as long as fitting a few images."""
        self._calls += 1
        if self._calls & (self._calls - 1) == 0:
            clipped.warn(images(), settings.saturation)
            given = settings.gain > 0 or settings.offset != 0 or settings.estimator == ESTIMATORS["poisson"]
            if offsets is not None or given:
                negative_light.warn(images(), settings.offset if offsets is None else offsets())

    def _call(self, function, settings: list, work: Work, outputs: list, progress) -> None:
        if progress is not None and not callable(progress):
            raise TypeError(f"progress is {progress!r}; allowed is a function of done and n")
        for name, array in (("out", work.results), ("details", work.details)):
            if progress is not None and isinstance(array, gpu.GpuArray):
                raise ValueError(f"progress may end the fits, and {name} lies on a GPU, where those not "
                                 "done would not be told; allowed is one of both")
        if work.on_gpu and self.backend == "cpu":
            raise ValueError(f"{work.on_gpu} on a GPU, and this Fitter is on the cpu "
                             f"({self.backend_reason}); allowed are numpy arrays: .get() of CuPy, "
                             ".cpu().numpy() of torch")
        failure: list[BaseException] = []
        fitted = 0

        def report(_user, done, total):
            nonlocal fitted
            fitted = done
            try:
                interrupt.raises = True
                return 1 if interrupt.seen or progress(done, total) else 0
            except BaseException as error:  # must not cross C; raised again below
                failure.append(error)
                return 1
            finally:
                interrupt.raises = False

        message = ctypes.create_string_buffer(512)
        if self._fitting:
            raise RuntimeError(FITTING)
        self._fitting = True
        try:
            with interrupts.noted() as interrupt:
                code = function(
                    self._handle, *settings, ctypes.byref(work.given), pointer(work.results), *outputs,
                    libdriftfit.Progress(report) if progress else libdriftfit.Progress(), None, message,
                    len(message))
                if code and isinstance(work.results, np.ndarray):
                    work.results[fitted:] = np.zeros((), RESULT)
                    work.results["status"][fitted:] = STATUS.index("bad_input")
        finally:
            self._fitting = False
        if failure:
            raise failure[0]
        if code == BAD_ARGUMENT:
            raise ValueError(message.value.decode())
        if code not in (0, CANCELLED):
            raise FitError(message.value.decode())
