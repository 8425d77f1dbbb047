# SPDX-License-Identifier: MIT
"""Pages of docs/ as man pages: the subset of Markdown that they use, to scdoc.

Headings, paragraphs, bulleted and numbered lists, code (fenced or indented), tables, and in a line
code, bold, italic and links. A table becomes a list of its first column: the last column is said
of it, those between stand above with their headings. Anything else is an error that names the line.

Why not a converter that exists: most of these pages are tables of five columns, and lowdown (tried:
1.0) makes boxes of them with a word or two a line where a terminal has 80 columns; a message of
docs/reference/protocol.md, a line of up to 2600 characters, stays one. pandoc, of 170 MB, writes tables for
tbl(1), too. Tables and code, half of this file, would have to be made beforehand with either.
"""
import re
import textwrap
from typing import Iterator

from .scdoc import bold, entry, italic, plain

WIDTH = 76
_INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|(?<!\w)\*(?P<italic>[^*\s][^*]*)(?<!\s)\*(?!\w)"
                     r"|!?\[(?P<text>[^\]]*)\]\((?P<link>[^)]*)\)")
_ITEM = re.compile(r"(?P<mark>[-*]|\d+\.) +(?P<text>.*)")


class NotUnderstood(ValueError):
    """What this page writes is not of the subset; the text says where."""


def inline(text: str) -> str:
    """The words of a paragraph, a heading or a cell."""
    said, at = "", 0
    for match in _INLINE.finditer(text):
        said += _words(text[at:match.start()], at == 0)
        if match["code"]:
            said += bold(match["code"])
        elif match["bold"]:
            said += bold(match["bold"].replace("`", ""))
        elif match["italic"]:
            said += italic(match["italic"])
        else:
            link = match["link"]
            words = inline(match["text"])
            said += f"{words} ({plain(link)})" if "://" in link else words
        at = match.end()
    return said + _words(text[at:], at == 0)


def _words(text: str, first: bool) -> str:
    # Only the first character of a line may be taken for a mark.
    return plain(text) if first else plain("x" + text)[1:]


def page(text: str, name: str = "page") -> str:
    """The body of the man page; the document's title is left to the page's head."""
    return "".join(_blocks(text.splitlines(), name))


def _blocks(lines: list[str], name: str) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        begin = at
        if not line.strip() or line.startswith("<!--"):
            at += 1
        elif line.startswith("#"):
            yield _heading(line)
            at += 1
        elif line.startswith("```"):
            at = _end(lines, at + 1, lambda other: other.startswith("```"))
            if at == len(lines):
                raise NotUnderstood(f"{name}:{begin + 1}: code that does not end")
            yield _literal(lines[begin + 1:at])
            at += 1
        elif line.startswith("    "):
            at = _end(lines, at, lambda other: bool(other.strip()) and not other.startswith("    "))
            yield _literal(textwrap.dedent("\n".join(lines[begin:at])).strip("\n").split("\n"))
        elif line.startswith("|"):
            at = _end(lines, at, lambda other: not other.startswith("|"))
            yield _table(lines[begin:at], f"{name}:{begin + 1}")
        elif _ITEM.match(line):
            at = _end(lines, at, lambda other: not other.strip())
            yield _list(lines[begin:at])
        elif re.match(r"[<>]|\s", line):
            raise NotUnderstood(f"{name}:{begin + 1}: no Markdown that the man pages know: {line!r}")
        else:
            at = _end(lines, at, lambda other: not other.strip() or bool(
                re.match(r"#|```|\||<!--", other)) or bool(_ITEM.match(other)))
            yield inline(" ".join(part.strip() for part in lines[begin:at])) + "\n\n"


def _end(lines: list[str], at: int, is_end) -> int:
    while at < len(lines) and not is_end(lines[at]):
        at += 1
    return at


def _heading(line: str) -> str:
    marks, text = line.split(" ", 1)
    if marks == "#":
        return "# DESCRIPTION\n\n"
    words = text.replace("`", "")
    return f"# {plain(words.upper())}\n\n" if marks == "##" else f"## {plain(words)}\n\n"


def _literal(lines: list[str]) -> str:
    folded = [part for line in lines for part in fold(line)]
    return "```\n" + "\n".join(part.replace("\\", "\\\\") for part in folded) + "\n```\n\n"


def fold(line: str) -> list[str]:
    """A line of code in lines that fit, broken after commas or at spaces."""
    parts = []
    while len(line) > WIDTH:
        at = max(line.rfind(",", 0, WIDTH), line.rfind(" ", 0, WIDTH))
        if at <= len(line) - len(line.lstrip()):
            break
        parts.append(line[:at + 1].rstrip())
        line = "  " + line[at + 1:].lstrip()
    return [*parts, line]


def _list(lines: list[str]) -> str:
    items: list[str] = []
    for line in lines:
        match = _ITEM.match(line)
        if match:
            # scdoc numbers the items itself.
            items.append(("- " if match["mark"] in "-*" else ". ") + match["text"])
        else:
            items[-1] += " " + line.strip()
    return "".join(f"{item[:2]}{inline(item[2:])}\n" for item in items) + "\n"


def _table(lines: list[str], where: str) -> str:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    if len(rows) < 2 or not all(re.fullmatch(":?-+:?", cell) for cell in rows[1]):
        raise NotUnderstood(f"{where}: a table without a line of dashes below its headings")
    headings = rows[0]
    said = ""
    for row in rows[2:]:
        if len(row) != len(headings):
            raise NotUnderstood(f"{where}: {len(headings)} headings, but a row has {len(row)} cells")
        row = [inline(cell.replace("\\|", "|")) for cell in row]
        between = "; ".join(f"{italic(heading)}: {cell}" if heading else cell
                            for heading, cell in zip(headings[1:-1], row[1:-1]) if cell)
        said += entry(row[0], between, row[-1])
    return said
