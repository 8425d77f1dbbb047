# SPDX-License-Identifier: MIT
"""Stands in for pyGpufit: ``from pygpufit import gpufit``, on driftd's libGpufit."""
