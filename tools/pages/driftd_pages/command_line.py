# SPDX-License-Identifier: MIT
"""A program's man page from its option table."""
import re

from .scdoc import bold, entry, head, italic, plain


#: Checks whose name in --help is a word, not a range.
WORDS = {"POSITIVE": "above 0", "NONNEGATIVE": "0 or more"}


def value_of(option: dict) -> str:
    """What stands for the value of an option, "" for a flag: a FLOAT, or the unit of "FLOAT:NM"."""
    kind, _, check = option["value"].partition(":")
    return check if check.isupper() and check.isalpha() and check not in WORDS else kind


def allowed_of(option: dict) -> str:
    """What the option's check says is allowed: "FLOAT:INT in [1 - 8]" is "INT in [1 - 8]"."""
    check = option["value"].partition(":")[2]
    return "" if check == value_of(option) else WORDS.get(check, check)


def visible(options: list[dict]) -> list[dict]:
    """--help of a command says what the page says."""
    return [option for option in options if "--help" not in option["names"]]


def page(program: str, section: int, version: str, app: dict, tail: str) -> str:
    """:param app: what --describe-command-line prints  :param tail: scdoc that comes at the end"""
    text = app["text"].rstrip(".")
    summary = text.removeprefix(program + " ")
    said = head(program, section, version, summary[0].lower() + summary[1:])
    said += f"# SYNOPSIS\n\n{synopsis(program, app)}\n\n"
    said += "# OPTIONS\n\n" + _options(app["options"])
    if app["commands"]:
        said += "# COMMANDS\n\n" + "".join(_commands(app["commands"], ""))
    return said + _exit_status(app["end"]) + tail


def synopsis(name: str, app: dict) -> str:
    words = [bold(name), "[_options_]" if visible(app["options"]) else ""]
    words += [_positional(option) for option in app["options"] if option["positional"]]
    if app["commands"]:
        words.append("_command_ ...")
    return " ".join(word for word in words if word)


def _positional(option: dict) -> str:
    word = italic(option["names"][0]) + ("..." if option["several"] else "")
    return word if option["required"] else f"\\[{word}\\]"


def _options(options: list[dict]) -> str:
    said, group = "", "Options"
    for option in sorted(options, key=lambda o: o["group"] != "Options"):  # stable: groups keep order
        if option["group"] != group:
            group = option["group"]
            said += f"## {plain(group)}\n\n"
        said += _option(option)
    return said


def _option(option: dict) -> str:
    value = value_of(option)
    if option["positional"]:
        term = italic(option["names"][0])
    else:
        term = ", ".join(map(bold, option["names"])) + (f" {italic(value)}" if value else "")
    facts = [f"Allowed: {plain(allowed_of(option))}." if allowed_of(option) else "",
             f"Default: {bold(option['default'])}." if option["default"] else ""]
    text = plain(option["text"])
    if text and text[-1] not in ".)":
        text += "."
    return entry(term, " ".join(part for part in (text, *facts) if part))


def _commands(commands: list[dict], outer: str):
    for command in commands:
        name = f"{outer} {command['name']}".strip()
        yield f"## {plain(name)}\n\n"
        yield f"{synopsis(name, command)}\n\n{plain(command['text'])}.\n\n"
        yield _options(visible(command["options"]))
        yield from _commands(command["commands"], name)


def _exit_status(text: str) -> str:
    """The footer of --help, which begins with the exit codes: a sentence, or a line for each."""
    first, _, rest = text.partition(":")
    if not first.startswith("Exit codes"):
        return f"# NOTES\n\n{plain(text)}\n\n" if text else ""
    said = "# EXIT STATUS\n\n"
    if remark := first.removeprefix("Exit codes").strip(" ()"):
        said += plain(remark[0].upper() + remark[1:]) + ".\n\n"
    lines = [line for line in rest.splitlines() if line.strip()]
    codes = [re.fullmatch(r"  (\d+) +(.+)", line) for line in lines]
    if all(codes):
        return said + "".join(entry(bold(code[1]), plain(code[2])) for code in codes if code)
    return said + plain(" ".join(line.strip() for line in lines)) + "\n\n"
