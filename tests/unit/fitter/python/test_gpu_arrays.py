# SPDX-License-Identifier: MIT
"""driftd_fit with arrays of other libraries on a GPU, with `out` and `pinned`. Without a GPU: what is
refused, and what is read from the two interfaces, of arrays that only say that they lie on one."""
import ctypes
import gc
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is not installed")
    sys.exit(0)

import driftd_fit
from driftd_fit import RESULT, Fitter, fit, gpu, pinned


def importable(name):
    try:
        return __import__(name)
    except ImportError:
        return None


def on_gpu():
    try:
        with Fitter("cuda"):
            return True
    except driftd_fit.FitError:
        return False


GPU = on_gpu()
cupy, torch = (importable(name) if GPU else None for name in ("cupy", "torch"))


def spots(n=200, side=9, dtype=np.uint16, seed=1):
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    centre = (side - 1) / 2 + random.uniform(-0.5, 0.5, (n, 2))
    photons = 10 + 200 * np.exp(-((x - centre[:, :1, None])**2 + (y - centre[:, 1:, None])**2) / 3.4)
    return random.poisson(photons).clip(0, 255).astype(dtype)


class Interface:
    """Says that a numpy array lies on a GPU."""
    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False),
            "strides": None if array.flags.c_contiguous else array.strides, "version": 3} | changes


class Dlpack:
    """Likewise, by the other interface."""
    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        assert stream == 1
        return self.array.__dlpack__()


class OfOtherLibraries(unittest.TestCase):
    def test_both_interfaces_are_read(self):
        for dtype in (np.uint8, np.uint16, np.float32):
            array = spots(dtype=dtype)
            for given in (Interface(array), Dlpack(array), Dlpack(array[3:5])):
                with self.subTest(dtype=dtype, kind=type(given)):
                    made = gpu.gpu_array("images", given)
                    self.assertEqual((made.pointer, made.shape, made.dtype),
                                     (given.array.ctypes.data, given.array.shape, dtype))
        self.assertIsNone(gpu.gpu_array("images", spots()))  # numpy has DLPack, too
        self.assertIsNone(gpu.gpu_array("images", 3))

    def test_gaps_and_other_orders_are_refused(self):
        array = spots()
        for other in (array[:, ::2, ::2], array.transpose(0, 2, 1), array[::2], array[:, :5, :5]):
            for given in (Interface(other), Dlpack(other)):
                with self.subTest(kind=type(given), strides=other.strides), \
                        self.assertRaisesRegex(ValueError, "ascontiguousarray"):
                    gpu.gpu_array("images", given)
        for flat in (array[:1], array[:0], array[4:5, :1, :1]):  # no gap between a single one and none
            self.assertIsNotNone(gpu.gpu_array("images", Interface(flat, strides=flat.strides)))

    def test_addresses_between_elements_are_refused(self):
        array = spots()
        address = array.ctypes.data
        with self.assertRaisesRegex(ValueError, "images.*no multiple of its elements' 2 bytes"):
            gpu.gpu_array("images", Interface(array, data=(address + 1, False)))
        self.assertIsNotNone(gpu.gpu_array("images", Interface(array, data=(address + 2, False))))

    def test_what_cannot_be_fitted_is_refused(self):
        array = spots()
        with Fitter("cpu") as fitter:
            for call, error, text in (
                    (lambda: fitter.fit(Interface(array)), ValueError, "pixels on a GPU.*cpu.*get"),
                    (lambda: fitter.search(Interface(array)), ValueError, "pixels on a GPU"),
                    (lambda: fitter.fit(array, start=Interface(np.zeros((200, 4), np.float32))),
                     ValueError, "starts on a GPU"),
                    (lambda: fitter.fit(array, out=Interface(np.zeros((200, 14), np.float32))),
                     ValueError, "out on a GPU"),
                    (lambda: fitter.fit(Interface(array.astype(float))), TypeError,
                     r"float64.*astype\(numpy.float32\)"),
                    (lambda: fitter.fit(Interface(array[:, :3, :3].copy())), ValueError, "3 x 3"),
                    (lambda: fitter.fit(Interface(array[0, 0])), ValueError, r"shape \(9,\)"),
                    (lambda: fitter.fit(Interface(array, mask=1)), TypeError, "mask"),
                    (lambda: fitter.fit(Interface(array, typestr="|V0", strides=None)), TypeError, r"\|V0"),
                    (lambda: fitter.fit(array, start=Interface(np.zeros((200, 3), np.float32))),
                     ValueError, r"start.*\(200, 3\).*\(200, 4\)"),
                    (lambda: fitter.fit(array, variances=Interface(np.ones((9, 9), np.float32))),
                     ValueError, r"variances.*\(9, 9\).*\(200, 9, 9\)"),
                    (lambda: fitter.fit(array, levels=Interface(np.ones((200, 2)))), ValueError,
                     "float64"),
                    (lambda: fitter.fit(array, out=Interface(np.zeros((200, 13), np.float32))),
                     ValueError, r"\(200, 14\)"),
                    (lambda: fitter.fit_frames(Interface(array), [[4, 4, 0]], 7), ValueError,
                     "pixels on a GPU.*cpu.*get"),
                    (lambda: fitter.fit_frames(Interface(array[0, 0]), [[4, 4]], 7), ValueError,
                     r"frames have shape \(9,\)"),
                    (lambda: fitter.fit_frames(Interface(array.astype(float)), [[4, 4]], 7), TypeError,
                     r"frames are float64.*astype\(numpy.float32\)"),
                    (lambda: fitter.fit_frames(array, Interface(np.zeros((5, 3), np.int32)), 7), ValueError,
                     "places on a GPU"),
                    (lambda: fitter.fit_frames(array, Interface(np.zeros((5, 3))), 7), ValueError,
                     r"coordinates.*float64.*\(n, 3\) of int32"),
                    (lambda: fitter.fit_frames(array, Interface(np.zeros((5, 2), np.int32)), 7), ValueError,
                     r"coordinates.*\(5, 2\)"),
                    (lambda: fitter.fit_frames(array, [[4, 4, 0]], 7,
                                               gain_map=Interface(np.ones((9, 8), np.float32))), ValueError,
                     r"gain_map.*\(9, 8\).*\(9, 9\)"),
                    (lambda: fitter.fit_frames(array, [[4, 4, 0]], 7,
                                               out=Interface(np.zeros((1, 14), np.float32))), ValueError,
                     "out on a GPU")):
                with self.subTest(text=text), self.assertRaisesRegex(error, text):
                    call()
            read_only = Interface(np.zeros((200, 14), np.float32), data=(4, True))
            with self.assertRaisesRegex(ValueError, "read-only"):
                fitter.fit(array, out=read_only)


class Out(unittest.TestCase):
    def test_results_go_there_and_nowhere_else(self):
        array = spots()
        expected = fit(array, backend="cpu")
        room = np.full(202 * RESULT.itemsize, 255, np.uint8).view(RESULT)
        before = room.copy()
        found = fit(array, backend="cpu", out=room[1:-1])
        self.assertEqual(found.tobytes(), expected.tobytes())
        self.assertTrue(np.shares_memory(found, room))
        self.assertEqual(room[[0, -1]].tobytes(), before[[0, -1]].tobytes())

    def test_other_arrays_are_refused(self):
        array = spots()
        frozen = np.zeros(200, RESULT)
        frozen.flags.writeable = False
        for out, error in ((np.zeros(199, RESULT), TypeError), (np.zeros((200, 14)), TypeError),
                           ([0] * 200, TypeError), (np.zeros(400, RESULT)[::2], ValueError),
                           (frozen, ValueError),
                           (np.zeros(200 * RESULT.itemsize + 1, np.uint8)[1:].view(RESULT), ValueError),
                           (np.ma.zeros(200, RESULT), TypeError)):
            with self.subTest(out=type(out)), self.assertRaisesRegex(error, "out is"):
                fit(array, backend="cpu", out=out)

    def test_it_is_not_what_is_fitted(self):
        room = np.zeros(200 * 81 * 4 + 200 * RESULT.itemsize, np.uint8)
        images = room[:200 * 81 * 4].view(np.float32).reshape(200, 9, 9)
        with self.assertRaisesRegex(ValueError, "shares memory"):
            fit(images, backend="cpu", out=room[RESULT.itemsize:201 * RESULT.itemsize].view(RESULT))
        fit(images, backend="cpu", out=room[200 * 81 * 4:].view(RESULT))

    def test_nor_on_a_gpu(self):
        room = np.zeros((200, 14), np.float32)
        coordinates = room.view(np.int32).ravel()[:600].reshape(200, 3)
        images = np.zeros((200, 9, 9), np.float32)
        for call in (lambda: fit(images, backend="cpu", start=Interface(room.ravel()[:800].reshape(200, 4)),
                                 out=Interface(room)),
                     lambda: driftd_fit.fit_frames(images[0], Interface(coordinates), 7, backend="cpu",
                                                   out=Interface(room))):
            with self.assertRaisesRegex(ValueError, "shares memory"):
                call()
        with self.assertRaisesRegex(ValueError, "out on a GPU"):  # of another array
            fit(images, backend="cpu", out=Interface(room))

    def test_on_a_gpu_nothing_ends_the_fits(self):
        with self.assertRaisesRegex(ValueError, "progress.*GPU"):
            fit(spots(), backend="cpu", out=Interface(np.zeros((200, 14), np.float32)),
                progress=lambda done, n: False)

    def test_devices_may_be_an_array(self):
        with self.assertRaises((ValueError, driftd_fit.FitError)) as refused:
            fit(spots(), backend="cuda", devices=np.array([900, 901]))
        self.assertNotIn("ambiguous", str(refused.exception))

    def test_an_error_of_progress_leaves_no_old_results(self):
        n = 140_000
        out = np.full(n * RESULT.itemsize, 1, np.uint8).view(RESULT)
        with self.assertRaisesRegex(RuntimeError, "no more"):
            fit(np.tile(spots(1_000, 5), (n // 1_000, 1, 1)), backend="cpu", out=out, progress=self.fail_once)
        self.assertTrue((out["status"][-100:] == 5).all())

    @staticmethod
    def fail_once(*_):
        raise RuntimeError("no more")

    def test_what_is_cancelled_is_bad_input(self):
        n = 140_000  # more than a block
        array = np.tile(spots(1_000, 5), (n // 1_000, 1, 1))
        for out in (None, np.full(n * RESULT.itemsize, 7, np.uint8).view(RESULT)):
            done = []
            found = fit(array, backend="cpu", out=out,
                        progress=lambda k, _, done=done: done.append(k) or True)
            self.assertTrue(0 < done[-1] < n)
            self.assertTrue((found["x"][:done[-1]] > 0.5).all())
            self.assertTrue((found["status"][done[-1]:] == 5).all())
            self.assertTrue((found["x"][done[-1]:] == 0).all())


class Pinned(unittest.TestCase):
    def test_it_is_an_array_of_zeros(self):
        for shape, dtype in (((200, 9, 9), np.uint16), (200, RESULT), ((), np.float32),
                             ((0, 9, 9), np.uint8), ((3, 4), float)):
            with self.subTest(shape=shape):
                array = pinned(shape, dtype)
                self.assertEqual((array.shape, array.dtype),
                                 (np.zeros(shape, dtype).shape, np.dtype(dtype)))
                self.assertTrue(array.flags.writeable and array.flags.c_contiguous)
                self.assertFalse(array.tobytes().strip(b"\0"))

    def test_views_keep_it(self):
        array = pinned((200, 9, 9), np.uint16)
        array[:] = spots()
        half = array[100:]
        del array
        gc.collect()
        self.assertEqual(half.tobytes(), spots()[100:].tobytes())

    def test_fits_are_the_same(self):
        images, out = pinned((200, 9, 9), np.uint16), pinned(200, RESULT)
        images[:] = spots()
        self.assertEqual(fit(images, out=out).tobytes(), fit(spots()).tobytes())

    def test_it_is_kept_while_a_view_is_and_given_back_once(self):
        kept, freed = {}, []

        class Library:
            driftfit_cuda_devices = staticmethod(lambda: 1)

            @staticmethod
            def driftfit_allocate_pinned(size):
                block = ctypes.create_string_buffer(b"\1" * size, size)
                kept[ctypes.addressof(block)] = block
                return ctypes.addressof(block)

            driftfit_free_pinned = staticmethod(freed.append)

        real, driftd_fit.libdriftfit._loaded = driftd_fit.libdriftfit._loaded, Library
        try:
            view = pinned((20, 9, 9), np.uint16)[10:]
            gc.collect()
            self.assertEqual((len(kept), freed, view.any()), (1, [], False))
            del view
            gc.collect()
            self.assertEqual(freed, list(kept))
            for shape, dtype, error in ((-1, float, ValueError), (3, object, TypeError),
                                        (3, ("f4", (2, 2)), TypeError)):
                with self.assertRaises(error):
                    pinned(shape, dtype)
            self.assertEqual(pinned(0).shape, (0,))
            self.assertEqual(len(kept), 1)
        finally:
            driftd_fit.libdriftfit._loaded = real

    @unittest.skipUnless(GPU, "no GPU")
    def test_more_than_there_is_is_refused(self):
        with self.assertRaisesRegex(MemoryError, "pinned"):
            pinned(2**50, np.uint8)


@unittest.skipUnless(GPU and (cupy or torch), "no GPU, or neither CuPy nor torch")
class OnTheGpu(unittest.TestCase):
    """The same bits as from the host."""
    def put(self):
        """Ways to put an array on the GPU."""
        ways = []
        if cupy:
            ways += [cupy.asarray, lambda a: Only(cupy.asarray(a), "__dlpack__", "__dlpack_device__"),
                     lambda a: Only(cupy.asarray(a), "__cuda_array_interface__")]
        if torch:
            ways.append(lambda a: torch.from_numpy(a).cuda())
        return ways

    def test_images_of_each_kind(self):
        for dtype in (np.uint8, np.uint16, np.float32):
            array = spots(dtype=dtype)
            for put in self.put():
                for estimator in ("implicit", "poisson"):
                    with self.subTest(dtype=dtype, estimator=estimator):
                        self.assertEqual(fit(put(array), estimator=estimator).tobytes(),
                                         fit(array, backend="cuda", estimator=estimator).tobytes())

    def test_everything_there(self):
        array = spots()
        start = np.tile(np.float32([4, 4, 1.3, 1.3]), (200, 1))
        levels = np.tile(np.float32([200, 10]), (200, 1))
        variances = np.random.default_rng(3).uniform(1, 20, array.shape).astype(np.float32)
        more = {"estimator": "poisson", "start": start, "levels": levels, "variances": variances}
        expected = fit(array, backend="cuda", **more)
        for put in self.put():
            out = put(np.zeros((200, 14), np.float32))
            there = {name: put(value) if name != "estimator" else value for name, value in more.items()}
            self.assertIs(fit(put(array), out=out, **there), out)
            back = out.array if isinstance(out, Only) else out
            back = back.get() if cupy and isinstance(back, cupy.ndarray) else back.cpu().numpy()
            self.assertEqual(back.tobytes(), expected.tobytes())

    def test_frames(self):
        frames = np.random.default_rng(2).poisson(20, (7, 60, 83)).astype(np.uint16)
        coordinates = np.array([[x, y, f] for f in range(7) for y in range(5, 55, 11)
                                for x in range(5, 80, 11)], np.int32)
        for (x, y, f), spot in zip(coordinates, spots(len(coordinates))):
            frames[f, y - 4:y + 5, x - 4:x + 5] += spot
        coordinates[3] = 1, 1, 0
        maps = {name: np.random.default_rng(i).uniform(0.5, 2, (60, 83)).astype(np.float32)
                for i, name in enumerate(("gain_map", "offset_map", "variance_map"))}
        for more in ({}, {"estimator": "poisson"} | maps):
            expected = driftd_fit.fit_frames(frames, coordinates, 9, backend="cuda", **more)
            self.assertEqual(expected["status"][3], 5)
            self.assertGreater(np.mean(expected["status"] < 3), 0.9)
            for put in self.put():
                there = {name: value if isinstance(value, str) else put(value)
                         for name, value in more.items()}
                found = driftd_fit.fit_frames(put(frames), coordinates, 9, **there)
                self.assertEqual(found.tobytes(), expected.tobytes())
                out = put(np.zeros((len(coordinates), 14), np.float32))
                self.assertIs(driftd_fit.fit_frames(put(frames), put(coordinates), 9, out=out, **there), out)
                back = out.array if isinstance(out, Only) else out
                back = back.get() if cupy and isinstance(back, cupy.ndarray) else back.cpu().numpy()
                self.assertEqual(back.tobytes(), expected.tobytes())
            if more:
                with self.assertRaisesRegex(ValueError, "maps have to lie there, too"):
                    driftd_fit.fit_frames(self.put()[-1](frames), coordinates, 9, **more)

    def test_a_swarm(self):
        array = spots(50)
        for put in self.put():
            for ours, host in zip(driftd_fit.search(put(array)), driftd_fit.search(array, backend="cuda")):
                self.assertEqual(ours.tobytes(), host.tobytes())

    @unittest.skipUnless(cupy, "no CuPy")
    def test_another_stream_is_waited_for(self):
        array = spots(20_000)
        expected = fit(array, backend="cuda")
        source, images = cupy.asarray(array), cupy.zeros(array.shape, np.uint16)
        big = cupy.ones((4096, 4096), np.float32)
        big @ big  # the library is loaded
        with Fitter("cuda") as fitter:
            for wrap in (lambda a: a, lambda a: Only(a, "__dlpack__", "__dlpack_device__")):
                images[:] = 0
                cupy.cuda.Device().synchronize()
                stream = cupy.cuda.Stream(non_blocking=True)
                with stream:
                    for _ in range(40):
                        big = big @ big * 0
                    images[:] = source
                    found = fitter.fit(wrap(images))
                self.assertEqual(found.tobytes(), expected.tobytes())

    @unittest.skipUnless(torch, "no torch")
    def test_torchs_own_cures(self):
        images = torch.from_numpy(spots(dtype=np.float32)).cuda()
        with self.assertRaisesRegex(ValueError, r"\.contiguous\(\)"):
            fit(images.transpose(1, 2))
        with self.assertRaisesRegex(TypeError, "detach"):
            fit(images.requires_grad_())


class Only:
    """An array that has but one of the interfaces."""
    def __init__(self, array, *names):
        self.array = array
        for name in names:
            setattr(self, name, getattr(array, name))


if __name__ == "__main__":
    print(f"GPU: {GPU}, CuPy: {bool(cupy)}, torch: {bool(torch)}")
    unittest.main(verbosity=1)
