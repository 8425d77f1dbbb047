# SPDX-License-Identifier: MIT
"""What a status says of a lock, of x and y or of z, and how people are told of it."""
from __future__ import annotations

from .messages import TOPIC_OF_AXES


def lock_of(status: dict, axes: str) -> dict:
    """What `status` tells of the lock of x and y, or of z; of a z that is not held: idle."""
    if axes not in TOPIC_OF_AXES:
        raise ValueError(f"axes {axes!r}: allowed are {', '.join(TOPIC_OF_AXES)}")
    if axes == "xy":
        return status
    return (status.get("axial") or {}).get("lock") or {"state": "idle", "reason": "none", "move": {"phase": "unlocked"}}


def lock_in_words(status: dict) -> str:
    """What the lock does, why, and what helps, as `driftctl` says it: ``"holding (no frames): see the camera's
    power, cable and trigger: `driftctl cameras`"``. Of z: of ``status["axial"]["lock"]``."""
    why = status["reason"]
    for key, before in (("held_for", ": "), ("held_first", ", at first ")):
        if status.get(key, "none") != "none":
            why += before + status[key]
    words = f"{status['state']} ({why.replace('_', ' ')})"
    if status.get("cure"):
        words += f": {status['cure']}"
    offer = status.get("interrupted")
    return f"{words}; {offer['text']}" if status["state"] == "lost" and offer else words


def why_not_in_lock(status: dict) -> str:
    """Why no images may be taken now, as `driftctl status` says it. Of z: of ``status["axial"]["lock"]``."""
    gate = status["gate"]
    of_z = "residual_z_nm" in gate
    what = {"residual": "residual", "settling": "settling at", "moved": "a frame was off by"}.get(gate["reason"])
    nm = [gate["residual_z_nm"]] if of_z else [gate["residual_x_nm"], gate["residual_y_nm"]]
    tolerance_nm, option = gate.get("tolerance_nm"), "gate.z_tolerance_nm" if of_z else "gate.tolerance_nm"
    if gate["reason"] == "axial":
        return "z does not lie still, or is not held"
    if what is None or None in (*nm, tolerance_nm):
        return gate["reason"].replace("_", " ")
    rms = "" if gate["reason"] == "moved" else " rms"
    return f"{what} {max(nm):.3g} nm{rms}, tolerance {tolerance_nm:g} nm ({option})"
