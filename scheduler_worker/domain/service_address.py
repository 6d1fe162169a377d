"""Addresses as people write them: where the Run Service is, and where a server of our own listens.

Decides what counts as an address and whether a connection is encrypted. Must never resolve or open anything.
"""

import re
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
_REMEDY = "write HOST:PORT, http://HOST[:PORT] or https://HOST[:PORT] (an IPv6 host in brackets)"
_LISTEN_REMEDY = "write HOST:PORT, such as 127.0.0.1:8090 or [::1]:8090 (port 0 picks a free one)"
_HIGHEST_PORT = 65_535
# Host names, IPv4 addresses, and bracketed IPv6 addresses with an optional zone.
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?|[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?")


class ServiceAddress(NamedTuple):
    """A gRPC target.

    Attributes:
        target: ``HOST:PORT``, an IPv6 host in brackets.
        secure: whether TLS is spoken.
    """

    target: str
    secure: bool

    @property
    def host(self) -> str:
        """The host alone, without brackets."""
        return self.target.rpartition(":")[0].strip("[]")


def parse_run_service_url(url: str) -> ServiceAddress:
    """Read ``HOST:PORT``, ``http://HOST[:PORT]`` (plain text) or ``https://HOST[:PORT]`` (TLS).

    Raises:
        ValueError: naming the fault and the remedy. A user name or password in the address is never repeated.
    """
    text = url.strip()
    if "@" in text:
        raise ValueError(f"a user name or password in the address is not supported; {_REMEDY}")
    scheme = "http"
    if "://" in text:
        scheme = text.partition("://")[0].lower()
        if scheme not in _DEFAULT_PORTS:
            raise ValueError(f"{url!r} has the unknown scheme {scheme!r}; {_REMEDY}")
        default_port: int | None = _DEFAULT_PORTS[scheme]
    else:
        text = f"//{text}"
        default_port = None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as fault:
        raise ValueError(f"{url!r} is not an address: {fault}; {_REMEDY}") from fault
    host = _host_of(url, parts)
    if port is None:
        port = default_port
    if not port:
        raise ValueError(f"{url!r} names no port; {_REMEDY}")
    return ServiceAddress(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", scheme == "https")


def parse_listen_address(listen: str) -> tuple[str, int]:
    """Read ``HOST:PORT`` and return both; an IPv6 host keeps its brackets, and port 0 means any free one.

    Raises:
        ValueError: naming the fault and the remedy.
    """
    host, colon, port = listen.strip().rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > _HIGHEST_PORT:
        raise ValueError(f"{listen!r} is no address to listen on; {_LISTEN_REMEDY}")
    if (":" in host) != (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"{listen!r} holds colons but no brackets; {_LISTEN_REMEDY}")
    return host, int(port)


def _host_of(url: str, parts: SplitResult) -> str:
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError(f"{url!r} has something after the port, which gRPC has no use for; {_REMEDY}")
    host = parts.hostname
    if not host or not _HOST.fullmatch(host):
        raise ValueError(f"{url!r} names no usable host; {_REMEDY}")
    return host
