# SPDX-License-Identifier: MIT
"""The version of pyGpufit whose calls these are; driftd's own is that of the package."""

__version_short__ = "1.2"
__version_full__ = "1.2.0"
__version__ = __version_full__
