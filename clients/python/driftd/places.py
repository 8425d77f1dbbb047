# SPDX-License-Identifier: MIT
"""Where a daemon is reached: endpoints, the folders of its sockets, and whether somebody listens there. What is
public is so in `driftd`."""
from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
from typing import NamedTuple

from .keys import Keys

PUBLISH = "ipc://publish"  # "ipc://NAME": in the runtime directory of the daemon, see `find_endpoint`
CORRECTIONS = "ipc://corrections"
COMMANDS = "ipc://commands"
_ENDPOINT = re.compile(r"ipc://.*[^/]|tcp://.+:[0-9]{1,5}")


class DriftdError(Exception):
    """driftd said no. ``code`` is one of docs/reference/protocol.md: bad_request, refused, timeout."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class Unreachable(DriftdError):
    """driftd is not reached. ``code`` is ``nobody`` (listens there), ``permission`` or ``timeout``."""


class Endpoints(NamedTuple):
    """Where a daemon is reached."""

    publish: str = PUBLISH
    corrections: str = CORRECTIONS  # "": this client's role may not subscribe to them
    commands: str = COMMANDS
    keys: Keys | None = None


def _local(endpoint: str | list[str]) -> str:
    """The endpoint for clients on its computer, of several that a socket is bound to."""
    if isinstance(endpoint, str):
        return endpoint
    return next((one for one in endpoint if not one.startswith("tcp://")), endpoint[0])


def _drop_ins(config: str | os.PathLike) -> list[str]:
    """The files that driftd reads after its configuration (docs/reference/configuration.md, "Drop-in files")."""
    folder = os.fsdecode(config) + ".d"
    with contextlib.suppress(FileNotFoundError):
        names = [name for name in os.listdir(folder) if name.endswith(".yaml") and not name.startswith(".")]
        return [os.path.join(folder, name) for name in sorted(names, key=os.fsencode)]
    return []


def _wire_of(name: str | os.PathLike) -> dict[str, str | list[str]]:
    """Section ``wire`` of one file. ValueError naming the file where that is no configuration of driftd."""
    import yaml  # the one thing here that needs it
    with open(name, encoding="utf-8") as file:
        try:
            content = yaml.safe_load(file) or {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{os.fsdecode(name)}: {error}") from None
    wire = content.get("wire") or {} if isinstance(content, dict) else None
    if not isinstance(wire, dict):
        raise ValueError(f"{os.fsdecode(name)}: found no mapping where sections, and endpoints in `wire`, are expected")
    for key in set(Endpoints._fields) & set(wire):
        some = [wire[key]] if isinstance(wire[key], str) else wire[key]
        if not (isinstance(some, list) and some and all(isinstance(one, str) for one in some)):
            raise ValueError(f"{os.fsdecode(name)}: wire.{key}: found {wire[key]!r}; allowed an endpoint, or a list of them")
    return wire


def endpoints(config: str | os.PathLike | None = None) -> Endpoints:
    """The endpoints of the daemon's configuration file and its drop-ins, or the default ones.

    Needs python3-yaml if a file is given. A named endpoint, ``ipc://NAME``, is looked for when it is
    used.

    Raises
    ------
    OSError, ValueError
        A file cannot be read, or is no configuration; ValueError names it.
    """
    wire: dict[str, str | list[str]] = {}
    if config is not None:
        for name in [config, *_drop_ins(config)]:
            wire.update(_wire_of(name))
    return Endpoints(**{name: _local(wire[name]) for name in Endpoints._fields if name in wire})


def runtime_directories() -> list[str]:
    """The folders where a daemon's sockets may be (docs/reference/protocol.md, "Where the sockets are")."""
    systemd, session = (os.environ.get(name, "") for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"))
    if systemd.startswith("/"):
        return [systemd.split(":")[0]]
    folders = ["/run/driftd"]
    if session.startswith("/"):
        folders.append(f"{session}/driftd")
    fallback = f"/tmp/driftd-{os.geteuid()}"
    with contextlib.suppress(OSError):
        about = os.lstat(fallback)
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077:
            folders.append(fallback)  # otherwise somebody else's
    return folders


def find_endpoint(endpoint: str) -> str:
    """``ipc://NAME`` in the first runtime directory where a daemon listens.

    Any other endpoint is returned as it is.

    Raises
    ------
    Unreachable
        No daemon listens, or this user may not connect; the text says which.
    ValueError
        It cannot be connected to, whoever listens.
    """
    if not _ENDPOINT.fullmatch(endpoint) or endpoint.startswith("tcp://") and not (
            1 <= int(endpoint.rpartition(":")[2]) <= 65535):
        raise ValueError(f"`{endpoint}` cannot be connected to: an endpoint is ipc://NAME, ipc:///PATH or "
                         "tcp://HOST:PORT with a port of 1 to 65535")
    if not endpoint.startswith("ipc://") or endpoint.startswith("ipc:///"):
        return endpoint
    places = [f"ipc://{folder}/{endpoint[6:]}" for folder in runtime_directories()]
    forbidden = None
    for place in places:
        try:
            check_listener(place)
            return place
        except Unreachable as error:
            if error.code == "permission":
                forbidden = error
    raise forbidden or Unreachable(_nobody(" or ".join(places)), "nobody")


def _nobody(places: str) -> str:
    return f"no driftd is there (nobody listens at {places}); is it running?"


def check_listener(endpoint: str) -> None:
    """Raises Unreachable when nobody listens or this user may not connect."""
    if endpoint.startswith("tcp://"):
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        family, address = socket.AF_INET, (host, int(port))
    else:
        family, address = socket.AF_UNIX, endpoint.removeprefix("ipc://")
    with socket.socket(family) as peer:
        peer.settimeout(1)
        try:
            peer.connect(address)
        except PermissionError:
            raise Unreachable(f"no permission to connect to {endpoint}: that takes a member of the "
                              f"group `{_group_of(address)}`", "permission") from None
        except (BlockingIOError, TimeoutError):
            pass  # it listens, and has no time
        except OSError:
            raise Unreachable(_nobody(endpoint), "nobody") from None


def _group_of(file: str) -> str:
    """The group of a file, or of its folder where that keeps this user from the file."""
    import grp  # not on Windows
    try:
        gid = os.stat(file).st_gid
    except OSError:
        gid = os.stat(os.path.dirname(file)).st_gid
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
