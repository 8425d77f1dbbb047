# SPDX-License-Identifier: MIT
"""Beads through focus by a scalar pupil: E = FT{cos(t)^-1/2 exp(i k n z cos(t) + 2 pi i sum a_j Z_j)}, sin(t) = rho
NA / n, |E|^2 on 4x4 samples a pixel. Written for the tests alone, so that the truth is not the program's own."""
import numpy as np

NA, INDEX, WAVE_NM, PIXEL_NM, CROP = 1.4, 1.518, 800.0, 100.0, 25


class Pupil:
    """Aberrations in waves rms: astigmatism (its sign says which width falls as z rises), coma, spherical."""

    def __init__(self, astigmatism=0.075, coma=0.0, spherical=0.0, points=41):
        axis = (np.arange(points) - points // 2) / (points // 2)
        v, u = np.meshgrid(axis, axis, indexing="ij")
        rho2 = u**2 + v**2
        inside = rho2 <= 1
        cosine = np.sqrt(np.maximum(1 - rho2 * (NA / INDEX)**2, 1e-9))
        waves = (astigmatism * np.sqrt(6) * (u**2 - v**2) + coma * np.sqrt(8) * (3 * rho2 - 2) * u
                 + spherical * np.sqrt(5) * (6 * rho2**2 - 6 * rho2 + 1))
        self.field = np.where(inside, cosine**-0.5 * np.exp(2j * np.pi * waves), 0)
        self.defocus = 2 * np.pi * INDEX / WAVE_NM * (cosine - 1)
        self.step = NA / WAVE_NM / (points // 2)  # 1 / nm
        self.axis = axis * NA / WAVE_NM

    def spot(self, x_px, y_px, z_nm):
        """Shares of all light in CROP x CROP pixels; x_px, y_px: of the spot from the middle pixel's centre."""
        fine = (np.arange(4 * CROP) + 0.5) / 4 - CROP / 2
        across = np.exp(2j * np.pi * np.outer((fine - x_px) * PIXEL_NM, self.axis))
        along = np.exp(2j * np.pi * np.outer((fine - y_px) * PIXEL_NM, self.axis))
        light = np.abs(along @ (self.field * np.exp(1j * self.defocus * z_nm)) @ across.T)**2
        light *= (PIXEL_NM / 4 * self.step)**2 / np.sum(np.abs(self.field)**2)
        return light.reshape(CROP, 4, CROP, 4).sum(axis=(1, 3))


class World:
    """A field of nine beads, each at a height of its own, in a stack whose field jumps sideways."""

    def __init__(self, pupil, z_nm, photons=3e4, background=20, seed=1, side=168, jump_px=3.0, gain=0.5, bleach=0.0,
                 heights_nm=60.0):
        random = np.random.default_rng(seed)
        grid = np.array([32.0, 84.0, 136.0])
        y, x = np.meshgrid(grid, grid, indexing="ij")
        self.places = np.column_stack([x.ravel(), y.ravel()]) + random.uniform(-3, 3, (9, 2))
        tilt = 2 * (self.places[:, 0] - 84) * PIXEL_NM / 1000
        self.heights = random.normal(0, heights_nm, 9) * (heights_nm > 0) + tilt * (heights_nm > 0)
        self.z_nm = np.asarray(z_nm, float)
        self.frames = np.empty((len(self.z_nm), side, side), np.uint16)
        for i, z in enumerate(self.z_nm):
            mean = np.full((side, side), float(background))
            jump = random.uniform(-jump_px, jump_px, 2)
            for (px, py), height in zip(self.places + jump, self.heights):
                left, top = int(round(px)), int(round(py))
                half = CROP // 2
                mean[top - half:top + half + 1, left - half:left + half + 1] += (
                    photons * (1 - bleach * i / len(self.z_nm)) * pupil.spot(px - left, py - top, z + height))
            electrons = random.poisson(mean) + random.normal(0, 1.5, mean.shape)
            self.frames[i] = np.clip(np.round(100 + electrons / gain), 0, 65535)
