# SPDX-License-Identifier: MIT
"""What scdoc(5) wants: escapes, the head of a page, entries of a list of terms."""
import re


def plain(text: str) -> str:
    """``text`` as it is: no character of it means anything to scdoc."""
    escaped = re.sub(r"([\\*_`\[\]|#])", r"\\\1", text)
    return re.sub(r"^([-.;+:])", r"\\\1", escaped)


def bold(text: str) -> str:
    return f"*{plain(text)}*" if text.strip() else ""


def italic(text: str) -> str:
    return f"_{plain(text)}_" if text.strip() else ""


def head(name: str, section: int, version: str, summary: str) -> str:
    return (f'{name}({section}) "driftd {version}" "driftd"\n\n'
            f"# NAME\n\n{plain(name)} - {plain(summary)}\n\n")


def entry(term: str, *paragraphs: str) -> str:
    """A term, and what is said of it indented below it."""
    said = "\n\n".join("\t" + paragraph for paragraph in paragraphs if paragraph)
    return f"{term}\n{said}\n\n" if said else f"{term}\n\n"
