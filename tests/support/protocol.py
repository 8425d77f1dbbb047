# SPDX-License-Identifier: MIT
"""The examples of docs/reference/protocol.md, and how a real message differs from them."""
import json
import pathlib

PROTOCOL = pathlib.Path(__file__).parents[2] / "docs/reference/protocol.md"


def examples() -> dict:
    """The example of each topic or reply, by the word after "```json"."""
    found = {}
    lines = iter(PROTOCOL.read_text().splitlines())
    for line in lines:
        if line.startswith("```json "):
            found[line.split()[1]] = json.loads(next(lines))
    return found


def differences(example, real, path: str = "") -> list[str]:
    """Keys and JSON types in which `real` differs from `example`, all the way down; a number may be
    null. Every element of a list is compared with the example's first."""
    def kind(value):
        return "number" if type(value) in (int, float) else type(value).__name__

    if kind(example) == "number" and real is None:
        return []
    if kind(example) != kind(real):
        return [f"{path}: documented as {kind(example)}, is {kind(real)}"]
    found = []
    if isinstance(example, dict):
        found += [f"{path}/{key}: documented, missing" for key in example.keys() - real.keys()]
        found += [f"{path}/{key}: not documented" for key in real.keys() - example.keys()]
        for key in example.keys() & real.keys():
            found += differences(example[key], real[key], f"{path}/{key}")
    elif isinstance(example, list) and example:
        for i, element in enumerate(real):
            found += differences(example[0], element, f"{path}/{i}")
    return found
