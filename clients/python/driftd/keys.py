# SPDX-License-Identifier: MIT
"""The keys for a daemon on another computer: read from files, given to a socket (docs/use/security.md)."""
from __future__ import annotations

import os
import stat
from typing import NamedTuple

import zmq


class Keys(NamedTuple):
    """The keys of a connection to a daemon on another computer, each 40 characters of Z85."""

    server: bytes  # the daemon's, public
    public: bytes  # one's own
    secret: bytes


def user_folder() -> str:
    """Where keys are looked for: ``$XDG_CONFIG_HOME/driftd``, or ``.config/driftd`` in the home folder, on
    every system."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    home = config if os.path.isabs(config) else os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "driftd")


def read_keys(address: str, key: str | os.PathLike | None = None,
              server_key: str | os.PathLike | None = None) -> Keys:
    """The keys for ``tcp://HOST:PORT`` from files.

    Parameters
    ----------
    key : path, optional
        One's own pair, as ``driftctl keygen client`` or ``zmq.auth.create_certificates`` makes it; without:
        ``client.key_secret`` in `user_folder`.
    server_key : path, optional
        The daemon's public key; without: ``servers/HOST.key`` there.

    Raises
    ------
    OSError, ValueError
        A file is not there, or holds no key; or others may read one's own.
    """
    import zmq.auth
    host = address.partition("://")[2].rpartition(":")[0]
    key = key or os.path.join(user_folder(), "client.key_secret")
    server_key = server_key or os.path.join(user_folder(), "servers", f"{host}.key")
    mode = stat.S_IMODE(os.stat(key).st_mode)
    if os.name == "posix" and mode & 0o077:
        raise ValueError(f"{key}: found a secret key with mode {mode:04o}; allowed 0600: chmod 0600 {key}")
    public, secret = zmq.auth.load_certificate(key)
    if not secret:
        raise ValueError(f"{key} holds no secret key")
    return Keys(zmq.auth.load_certificate(server_key)[0], public, secret)


def use_keys(peer: zmq.Socket, keys: Keys | None) -> None:
    """Give keys to a socket before it connects. Without keys it is left as it is."""
    if keys is not None:
        peer.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)  # a client that is refused does not ask all the time
        peer.curve_serverkey, peer.curve_publickey, peer.curve_secretkey = keys
