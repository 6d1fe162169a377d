"""One connection to Postgres, set up so that a vanished peer is noticed within seconds on both sides.

Decides the session's settings and time limits; what the address says goes before them. Must never hold a connection
itself: who asks for one closes it.
"""

import contextlib
import socket
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import asyncpg

from scheduler_worker.domain.database_url import DatabaseUrl
from scheduler_worker.errors import ConfigError, DatabaseUnavailableError

CONNECT_TIMEOUT_SECONDS: Final = 5.0
KEEPALIVE_IDLE_SECONDS: Final = 2
KEEPALIVE_INTERVAL_SECONDS: Final = 1
KEEPALIVE_COUNT: Final = 3
USER_TIMEOUT_MS: Final = 5_000  # how long sent data may stay unacknowledged

# The macOS name of what Linux calls TCP_KEEPIDLE.
_IDLE_OPTION: Final = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
_DEFAULT_SETTINGS: Final = {
    "application_name": "scheduler-worker",
    "timezone": "UTC",
    # Planning by compiling costs more than these short statements take.
    "jit": "off",
}


async def connect(
    url: DatabaseUrl,
    *,
    server_settings: Mapping[str, str] | None = None,
    command_timeout_seconds: float | None = None,
) -> asyncpg.Connection:
    """Open a connection to the server of `url` that takes writes.

    Raises:
        DatabaseUnavailableError: nothing answers, not in time, only read-only servers do, or the server refuses the
            user or the database (which an operator may put right while the worker waits).
        ConfigError: the driver can't use what the address or libpq's environment says.
    """
    limit = url.numbers.get("connect_timeout", CONNECT_TIMEOUT_SECONDS)
    try:
        connection = await asyncpg.connect(
            f"postgresql://?{urlencode(_tls_parameters(url))}",
            host=list(url.hosts) or None,
            port=list(url.ports) or None,
            user=url.user,
            password=url.password,
            database=url.database,
            ssl=_system_trust(url),
            # A hot standby grants advisory locks too: on one, two workers could own "the" lock.
            **{"target_session_attrs": "read-write", **url.passed_on},
            server_settings={**_DEFAULT_SETTINGS, **url.server_settings, **(server_settings or {})},
            timeout=limit or None,
            command_timeout=command_timeout_seconds,
        )
    except asyncpg.ClientConfigurationError as error:
        raise ConfigError([f"database_url: {error}"]) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise DatabaseUnavailableError(f"connecting to {url}: {error or type(error).__name__}") from error
    _keep_alive(connection, url)
    return connection


def _tls_parameters(url: DatabaseUrl) -> dict[str, str]:
    if url.tls.get("sslrootcert") == "system":
        return {}
    return dict(url.tls)


def _system_trust(url: DatabaseUrl) -> ssl.SSLContext | None:
    # libpq's name for the trust store of the operating system; the driver would look for a file of that name.
    if url.tls.get("sslrootcert") != "system":
        return None
    context = ssl.create_default_context()
    if "sslcert" in url.tls:
        context.load_cert_chain(url.tls["sslcert"], url.tls.get("sslkey"), url.tls.get("sslpassword"))
    return context


def _keep_alive(connection: asyncpg.Connection, url: DatabaseUrl) -> None:
    transport = connection._transport  # noqa: SLF001 - the driver offers no other way to its socket
    plain = transport.get_extra_info("socket")
    if plain is None or plain.family == socket.AF_UNIX or url.numbers.get("keepalives", 1) == 0:
        return
    options = {
        _IDLE_OPTION: url.numbers.get("keepalives_idle", KEEPALIVE_IDLE_SECONDS),
        getattr(socket, "TCP_KEEPINTVL", None): url.numbers.get("keepalives_interval", KEEPALIVE_INTERVAL_SECONDS),
        getattr(socket, "TCP_KEEPCNT", None): url.numbers.get("keepalives_count", KEEPALIVE_COUNT),
        getattr(socket, "TCP_USER_TIMEOUT", None): url.numbers.get("tcp_user_timeout", USER_TIMEOUT_MS),
    }
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in options.items():
        if option is not None and value > 0:
            # A system that knows the name may still refuse the value: the heartbeats remain.
            with contextlib.suppress(OSError):
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
