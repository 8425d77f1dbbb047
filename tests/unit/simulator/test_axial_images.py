#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Images of spots at heights, by driftd_axial_images, against calculations that share nothing with
the simulator: the diffraction integral in polar coordinates, by Gauss and Legendre's rule, at some
pixels; the Fourier transform of whole images, by numpy; Huang's formula."""
import cmath
import json
import math
import os
import subprocess
import tempfile
import unittest

try:
    import numpy
except ImportError:
    numpy = None

IMAGES = os.environ["DRIFTD_AXIAL_IMAGES"]
SIDE = 17
PLACE = (8.3, 7.8)  # not the same in x and y, and in the middle of no pixel
NA, INDEX, WAVELENGTH, PIXEL = 1.4, 1.518, 800.0, 100.0


def images(optics, heights, side=SIDE, place=PLACE):
    """Of each height, rows of pixels."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("optics: " + json.dumps(optics))
        file.flush()
        told = subprocess.run([IMAGES, file.name, str(side), *map(str, place), *map(str, heights)],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
    flat = [json.loads(line) for line in told.splitlines()]
    return [[one[y * side:(y + 1) * side] for y in range(side)] for one in flat]


def pupil_optics(**aberrations):
    return {"shape": "pupil", "pixel_size_nm": PIXEL,
            "pupil": dict(numerical_aperture=NA, index=INDEX, wavelength_nm=WAVELENGTH, **aberrations)}


def legendre(count):
    """Places and weights of Gauss' rule on -1 .. 1, by Newton's method."""
    rule = []
    for i in range(count):
        x = math.cos(math.pi * (i + 0.75) / (count + 0.5))
        for _ in range(50):
            below, here = 1.0, x
            for k in range(2, count + 1):
                below, here = here, ((2 * k - 1) * x * here - (k - 1) * below) / k
            slope = count * (x * here - below) / (x * x - 1)
            x -= here / slope
        rule.append((x, 2 / ((1 - x * x) * slope * slope)))
    return rule


def waves(rho, angle, astigmatism=0.0, astigmatism_deg=0.0, coma=0.0, coma_deg=0.0, spherical=0.0):
    return (astigmatism * math.sqrt(6) * rho**2 * math.cos(2 * (angle - math.radians(astigmatism_deg)))
            + coma * math.sqrt(8) * (3 * rho**3 - 2 * rho) * math.cos(angle - math.radians(coma_deg))
            + spherical * math.sqrt(5) * (6 * rho**4 - 6 * rho**2 + 1))


ABERRATIONS = dict(astigmatism=0.075, astigmatism_deg=20.0, coma=0.03, coma_deg=50.0, spherical=0.02)
KEYS = dict(astigmatism_waves=0.075, astigmatism_deg=20, coma_waves=0.03, coma_deg=50, spherical_waves=0.02)


class Integral(unittest.TestCase):
    def test_pixels_are_the_diffraction_integral(self):
        rings, spokes = legendre(24), 64
        k = 2 * math.pi / WAVELENGTH
        points, whole = [], 0.0
        for u, weight in rings:
            rho = (u + 1) / 2
            cosine = math.sqrt(1 - (rho * NA / INDEX)**2)
            for spoke in range(spokes):
                angle = 2 * math.pi * spoke / spokes
                area = weight / 2 * rho * 2 * math.pi / spokes
                phase = 2 * math.pi * waves(rho, angle, **ABERRATIONS)
                points.append((k * NA * rho * math.cos(angle), k * NA * rho * math.sin(angle), k * INDEX * cosine,
                               area / math.sqrt(cosine) * cmath.exp(1j * phase)))
                whole += area / cosine
        whole *= (2 * math.pi / (k * NA))**2  # Parseval: all light of the plane, nm^2

        def light(x, y, z):
            return abs(sum(a * cmath.exp(1j * (x * kx + y * ky + z * kz)) for kx, ky, kz, a in points))**2 / whole

        heights = (-310, 0, 475)  # in a plane, and between two
        told = images(pupil_optics(**KEYS), heights)
        inside = legendre(3)  # points of a pixel
        brightest = max(max(row) for row in told[1])
        for z, image in zip(heights, told):
            for column, row in ((8, 8), (9, 7), (6, 8), (8, 11), (10, 10), (3, 9)):
                expected = sum(
                    wx * wy / 4 * light(PIXEL * (column - PLACE[0] + px / 2), PIXEL * (row - PLACE[1] + py / 2), z)
                    for px, wx in inside for py, wy in inside) * PIXEL**2
                # Interpolation and the pupil's edge are good to some 1e-3 of the brightest pixel.
                self.assertAlmostEqual(image[row][column], expected, delta=1.5e-3 * brightest,
                                       msg=f"z {z}, pixel {column}, {row}")


@unittest.skipUnless(numpy, "SKIPPED: python3-numpy is not installed")
class Transform(unittest.TestCase):
    def image(self, z):
        """By a Fourier transform of 512 points across the pupil to 12 across each pixel."""
        across, parts = 512, 12
        side = (numpy.arange(across) + 0.5) / across * 2 - 1
        x, y = numpy.meshgrid(side, side)
        rho, angle = numpy.hypot(x, y), numpy.arctan2(y, x)
        inside = rho < 1
        cosine = numpy.sqrt(1 - (numpy.minimum(rho, 1) * NA / INDEX)**2)
        a = ABERRATIONS
        wave = (a["astigmatism"] * 6**0.5 * rho**2 * numpy.cos(2 * (angle - numpy.radians(a["astigmatism_deg"])))
                + a["coma"] * 8**0.5 * (3 * rho**3 - 2 * rho) * numpy.cos(angle - numpy.radians(a["coma_deg"]))
                + a["spherical"] * 5**0.5 * (6 * rho**4 - 6 * rho**2 + 1))
        k = 2 * numpy.pi / WAVELENGTH
        field = inside / numpy.sqrt(cosine) * numpy.exp(1j * (2 * numpy.pi * wave + k * INDEX * z * cosine))
        place = PIXEL * ((numpy.arange(SIDE * parts) + 0.5) / parts - 0.5)
        column, row = (numpy.exp(1j * k * NA * numpy.outer(place - PIXEL * middle, side)) for middle in PLACE)
        light = numpy.abs(row @ field @ column.T)**2 * (2 / across)**4
        whole = (numpy.abs(field)**2).sum() * (2 / across)**2 * (2 * numpy.pi / (k * NA))**2  # Parseval
        pixels = light.reshape(SIDE, parts, SIDE, parts).sum(axis=(1, 3))
        return pixels * (PIXEL / parts)**2 / whole

    def test_whole_images_are_the_fourier_transform(self):
        heights = (-625, -200, 0, 130, 900)
        for z, image in zip(heights, images(pupil_optics(**KEYS), heights)):
            expected = self.image(z)
            worst = abs(numpy.array(image) - expected).max()
            self.assertLess(worst, 1.5e-3 * 0.086, f"z {z}")  # 0.086: the brightest pixel without aberrations
            self.assertAlmostEqual(numpy.sum(image), expected.sum(), delta=2e-3)


class WidthCurve(unittest.TestCase):
    def test_widths_are_huangs(self):
        curve = dict(width_px=1.2, focus_nm=200, depth_nm=380, a=0.2, b=0.1)
        side, middle = 61, 30
        for z in (-300, -120, 0, 77, 250):
            optics = {"shape": "width_curve", "width_curve": curve}
            image = images(optics, [z], side, (middle + 0.2, middle - 0.4))[0]
            total = sum(map(sum, image))
            self.assertAlmostEqual(total, 1, delta=1e-4)

            def width(marginal):
                mean = sum(i * v for i, v in enumerate(marginal)) / total
                # The pixel's area adds 1/12.
                return math.sqrt(sum((i - mean)**2 * v for i, v in enumerate(marginal)) / total - 1 / 12)

            def huang(z_nm):
                q = z_nm / curve["depth_nm"]
                return curve["width_px"] * math.sqrt(1 + q**2 + curve["a"] * q**3 + curve["b"] * q**4)
            self.assertAlmostEqual(width([sum(row[x] for row in image) for x in range(side)]), huang(z - 200), delta=1e-3)
            self.assertAlmostEqual(width([sum(row) for row in image]), huang(z + 200), delta=1e-3)


if __name__ == "__main__":
    unittest.main()
