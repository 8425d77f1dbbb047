# SPDX-License-Identifier: MIT
"""Names of the wire and of the code in what people read: "it looks turned_or_swapped"."""
from __future__ import annotations

import functools
import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parents[2]
IDENTIFIER = re.compile(r"(?<![\w.`/$@-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w`/.=(])")
#: What is quoted, and files and programs, is meant as it is written.
QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\S*/\S*")


@functools.cache
def option_names() -> set[str]:
    """What a user types into a configuration: keys, by their last words, too, and values."""
    named = re.findall(r"`([a-z0-9_.]+)`", (SOURCE / "docs/reference/configuration.md").read_text())
    return {name.rsplit(".", 1)[-1] for name in named}


def identifiers(text: str, known: set[str]) -> list[str]:
    """Those in `text` that nobody who reads it has typed or could type."""
    return [name for name in IDENTIFIER.findall(QUOTED.sub(" ", text)) if name not in known]
