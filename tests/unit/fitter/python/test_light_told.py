# SPDX-License-Identifier: MIT
"""What the Python binding warns of: pixels that are clipped, and light below the offset."""
import unittest
import warnings

from made_spots import SIDE, driftd_fit, np, spots

from driftd_fit import Fitter, converged, fit, search


class Clipped(unittest.TestCase):
    def warnings_of(self, images, **more):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            fit(images, backend="cpu", **more)
        return [str(warning.message) for warning in seen]

    def test_spots_that_are_clipped_are_told(self):
        images, _ = spots(300)
        most = int(images.max())
        for dtype in (np.uint16, np.float32):
            self.assertEqual(self.warnings_of(images.astype(dtype)), [])
            text, = self.warnings_of(np.minimum(images, 300).astype(dtype))
            self.assertRegex(text, "9.% of the images have 3 neighbouring pixels or more of exactly 300 at the top")
        self.assertEqual(self.warnings_of(np.minimum(images, 300), saturation=300), [])
        self.assertEqual(self.warnings_of(np.minimum(images, 60)), [])  # few counts
        text, = self.warnings_of(np.minimum(images, 255).astype(np.uint8))
        self.assertIn("saturation=255 would leave none: only less light helps", text)
        text, = self.warnings_of(np.minimum(images, 500))
        told = int((images[::3].max(axis=(1, 2)) >= 500).sum())
        self.assertIn(f"saturation=500 makes bad_input of the {told} of 100 that reach it", text)
        fits = fit(np.minimum(images, 500)[::3], backend="cpu", saturation=500)  # as is advised
        self.assertEqual((~converged(fits)).sum(), told)
        self.assertEqual(self.warnings_of(np.full((9, 9, 9), 200, np.uint8)), [])
        self.assertEqual(self.warnings_of(np.empty((0, 9, 9), np.uint8)), [])
        one = np.minimum(images[images.max(axis=(1, 2)).argmax()], 300)
        self.assertEqual(len(self.warnings_of(one)), 1)
        self.assertEqual(self.warnings_of(np.full((4, 9, 9), np.nan, np.float32)), [])
        self.assertGreater(most, 600)
        hot = np.minimum(images, 300)
        hot[::7, 1, 2] = 4000 + np.arange(len(hot[::7]))  # one brighter pixel beside
        self.assertIn("exactly 300", *self.warnings_of(hot))
        text, = self.warnings_of((np.minimum(images, 300) / np.float32(4095)).astype(np.float32))
        level = float(text.split("saturation=")[1].split()[0])
        self.assertEqual(np.float32(level), np.float32(300) / np.float32(4095))

    def test_a_few_flat_tops_below_the_tops_of_most_others_are_chance(self):
        images, _ = spots(100)
        for level, told in (512, False), (511, True):  # full scale of 9 bits
            some = images.copy()
            bright = np.argsort(some.max(axis=(1, 2)))[-3:]
            some[bright] = np.minimum(some[bright], level)
            with self.subTest(level=level):
                self.assertGreater((some.max(axis=(1, 2)) > 512).sum(), 3)
                self.assertEqual(len(self.warnings_of(some)), told)

    def test_hot_pixels_and_tracks_of_particles_are_no_clipped_spots(self):
        images, _ = spots(300)
        random = np.random.default_rng(2)
        for level in (1300, 4095, 65535):
            for name, (rows, columns) in {
                    "apart": ((1, 1, 7), (1, 9, 2)), "row": (1, (2, 3, 4)), "column": ((7, 8, 9), 9),
                    "row through the spot": (5, (3, 4, 5)), "corner": ((1, 1, 2), (1, 2, 1)), "block": ((1, 1, 2, 2), (1, 2, 1, 2))}.items():
                with self.subTest(name, level=level):
                    hot = images.copy()
                    hot[:, rows, columns] = level
                    self.assertEqual(self.warnings_of(hot), [])
        tracks = images.copy()
        for image in tracks:
            y, x, angle = *random.uniform(2, 9, 2), random.uniform(0, 7)
            along = np.arange(0, random.uniform(3, 8), 0.2)
            rows, columns = (y + along * np.sin(angle)).astype(int), (x + along * np.cos(angle)).astype(int)
            there = (rows >= 0) & (rows < SIDE) & (columns >= 0) & (columns < SIDE)
            image[rows[there], columns[there]] = 4095
        self.assertEqual(self.warnings_of(tracks), [])

    def test_beads_with_a_flat_top_are_not(self):
        y, x = np.mgrid[:19, :19]
        random = np.random.default_rng(5)
        for power, width in ((6, 3), (8, 4), (16, 3), (16, 5), (60, 4), (400, 4)):  # the last ones: an edge
            beads = np.array([1000 * np.exp(-(np.hypot(x - px, y - py) / width)**power) + 100
                              for px, py in random.uniform(8.5, 9.5, (40, 2))])
            for kind in (beads.astype(np.float32), beads.round().astype(np.uint16), (beads / 5).round().astype(np.uint8)):
                with self.subTest(power=power, width=width, dtype=kind.dtype):
                    self.assertEqual(self.warnings_of(kind), [])

    def test_spots_without_noise_are_not(self):
        y, x = np.mgrid[:10, :10]
        for place in ((3, 5), (4.5, 4.5), (4.5, 5), (4, 4.5)):  # the same on all their sides
            spot = 900 * np.exp(-((x - place[0])**2 + (y - place[1])**2) / 4.5) + 30
            for dtype in (np.float32, np.uint16):
                with self.subTest(place=place, dtype=dtype):
                    self.assertEqual(self.warnings_of(spot.astype(dtype)), [])
                    self.assertEqual(self.warnings_of(np.repeat(spot.astype(dtype)[None], 100, axis=0)), [])

    def test_of_frames_too(self):
        frame = np.random.default_rng(3).poisson(20, (60, 60)).astype(np.uint16)
        images, _ = spots(9)
        places = np.array([[x, y] for x in (10, 30, 50) for y in (10, 30, 50)])
        for (x, y), image in zip(places, images):
            frame[y - 5:y + 6, x - 5:x + 6] = np.minimum(image, 300)
        with self.assertWarnsRegex(RuntimeWarning, "of exactly 300 at the top"):
            driftd_fit.fit_frames(frame, places, 11, backend="cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            driftd_fit.fit_frames(frame, places, 11, backend="cpu", saturation=300)
            driftd_fit.fit_frames(frame, places[:0], 11, backend="cpu")

    def test_a_fitter_does_not_look_at_every_call(self):
        images = np.minimum(spots(20)[0], 300)
        with warnings.catch_warnings(record=True) as seen, Fitter("cpu") as fitter:
            warnings.simplefilter("always")
            for _ in range(20):
                fitter.fit(images)
        self.assertEqual(len(seen), 5)


class NegativeLight(unittest.TestCase):
    def warnings_of(self, function, *arguments, **more):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            function(*arguments, backend="cpu", **more)
        return [str(warning.message) for warning in seen]

    def test_a_background_below_the_offset_is_told(self):
        images, _ = spots(100)  # a background of 50
        for offset, told in ((0, False), (40, False), (50, False), (70, True), (100, True)):
            with self.subTest(offset=offset):
                texts = self.warnings_of(fit, images, gain=1, offset=offset)
                self.assertEqual(len(texts), told)
        self.assertRegex(*self.warnings_of(fit, images, gain=1, offset=70),
                         "9.% of the pixels at the images' edges are below the offset, 70: there is no negative light")
        self.assertEqual(len(self.warnings_of(fit, images, offset=70)), 1)
        self.assertEqual(len(self.warnings_of(search, images[:3], offset=70)), 1)
        dark = images.astype(np.float32) - 100
        self.assertEqual(self.warnings_of(fit, dark), [])  # neither gain nor offset: nothing is made of it
        self.assertEqual(len(self.warnings_of(fit, dark, estimator="poisson")), 1)
        self.assertEqual(self.warnings_of(fit, images[:0], gain=1, offset=70), [])

    def test_in_frames_too_and_of_a_map(self):
        frame = np.random.default_rng(3).poisson(20, (60, 50)).astype(np.uint16)
        images, _ = spots(4)
        places = np.array([[x, y] for x in (10, 40) for y in (10, 50)])
        for (x, y), image in zip(places, images):
            frame[y - 5:y + 6, x - 5:x + 6] = image
        for offset, told in ((40, 0), (75, 1)):
            offsets = np.full(frame.shape, 0, np.float32)
            for x, y in places:
                offsets[y - 5:y + 6, x - 5:x + 6] = offset
            self.assertEqual(len(self.warnings_of(driftd_fit.fit_frames, frame, places, 11, offset=offset)), told)
            texts = self.warnings_of(driftd_fit.fit_frames, frame, places, 11, offset_map=offsets)
            self.assertEqual(len(texts), told)
        self.assertIn("below the offset_map: ", texts[0])


if __name__ == "__main__":
    unittest.main()
