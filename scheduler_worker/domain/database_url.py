"""Where the database is: reads an address in any form that libpq reads.

Decides what an address says and refuses what the driver could not honour. Must never open anything, read a file, or
repeat a password: no message, no `repr` and no `redacted` text holds one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from scheduler_worker.errors import ConfigError

_KEY = "database_url"
_REMEDY = "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE or 'host=… dbname=… user=…'"
_SCHEME = re.compile(r"(postgres|postgresql)(\+\w+)?://", re.IGNORECASE)
_CONNINFO_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)", re.DOTALL)
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>.*))?", re.DOTALL)

_PASSED_ON = frozenset({"service", "passfile", "krbsrvname", "gsslib", "target_session_attrs"})
_TLS = frozenset(
    {
        "sslmode",
        "sslcert",
        "sslkey",
        "sslpassword",
        "sslrootcert",
        "sslcrl",
        "sslnegotiation",
        "ssl_min_protocol_version",
        "ssl_max_protocol_version",
    }
)
_SECONDS_AND_COUNTS = frozenset(
    {
        "connect_timeout",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
    }
)
_SENT_TO_SERVER = frozenset({"application_name", "options"})
# They tune libpq and change nothing that its user could miss here.
_WITHOUT_MEANING_HERE = frozenset(
    {
        "client_encoding",
        "fallback_application_name",
        "sslcompression",
        "sslsni",
        "gssdelegation",
        "load_balance_hosts",
        "min_protocol_version",
        "max_protocol_version",
    }
)
# What each promises can't be kept by the driver; the values named here promise nothing.
_ONLY_WHEN_LENIENT: Mapping[str, frozenset[str]] = {
    "channel_binding": frozenset({"", "prefer", "disable"}),
    "gssencmode": frozenset({"", "prefer", "disable"}),
    "sslcertmode": frozenset({"", "allow", "disable"}),
    "require_auth": frozenset({""}),
    "requirepeer": frozenset({""}),
    "replication": frozenset({"", "false", "off", "no", "0"}),
}
_OTHER_NAMES = {"database": "dbname", "ssl": "sslmode", "username": "user"}
_ADDRESS = frozenset({"host", "hostaddr", "port", "user", "password", "dbname"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """An address of Postgres, taken apart. What it leaves open is None or empty, and libpq's environment decides.

    Attributes:
        hosts: names, addresses, or folders of a Unix socket (they begin with ``/``), in the order to try.
        ports: one for all hosts, or one for each.
        tls: libpq's ``ssl…`` parameters.
        numbers: libpq's time limits and keepalive settings, in its units.
        server_settings: what the server is told at the start of a session.
        passed_on: parameters that the driver reads by libpq's names.
    """

    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str | None = None
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)
    numbers: Mapping[str, int] = field(default_factory=dict, repr=False)
    server_settings: Mapping[str, str] = field(default_factory=dict)
    passed_on: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        ports = self.ports if len(self.ports) == len(self.hosts) else self.ports * len(self.hosts)
        places = [f"{host}:{port}" for host, port in zip(self.hosts, ports, strict=True)] if ports else self.hosts
        user = f"{self.user}@" if self.user else ""
        return f"postgresql://{user}{','.join(places)}/{self.database or ''}"


def parse_database_url(text: str) -> DatabaseUrl:
    """Read a URL (``postgresql://``, ``postgres://``, with or without a driver's name) or a key/value string.

    Raises:
        ConfigError: naming the parameter at fault and the remedy, all faults together.
    """
    text = text.strip()
    scheme = _SCHEME.match(text)
    if scheme is not None:
        found = dict(_pairs_of_url(text[scheme.end() :]))
    elif "://" in text.partition("=")[0]:  # what follows a key may hold anything
        raise _fault(f"the scheme {text.partition('://')[0]!r} is not Postgres; {_REMEDY}")
    else:
        found = dict(_pairs_of_conninfo(text))
    return _url_of({_OTHER_NAMES.get(name, name): value for name, value in found.items()})


def redacted(text: str) -> str:
    """Return `text` fit for a log: user, hosts and database, without password and parameters."""
    try:
        return str(parse_database_url(text))
    except ConfigError:
        return "an unreadable database URL"


def _fault(words: str) -> ConfigError:
    return ConfigError([f"{_KEY}: {words}"])


def _pairs_of_url(rest: str) -> Iterator[tuple[str, str]]:
    address, _, query = rest.partition("?")
    authority, _, database = address.partition("/")
    credentials, has_credentials, places = authority.rpartition("@")
    if not has_credentials and "@" in address:
        # The text up to the slash may be the begin of a password: it is not repeated.
        raise _fault("there is a '/' before the '@'; write a '/' in the user name or password as %2F")
    if has_credentials:
        user, has_password, password = credentials.partition(":")
        if user:
            yield "user", unquote(user)
        if has_password and password:
            yield "password", unquote(password)
    if places:
        yield from _hosts_and_ports(places)
    if database:
        yield "dbname", unquote(database)
    for pair in filter(None, query.split("&")):
        name, has_value, value = pair.partition("=")
        if not has_value:
            raise _fault(f"the parameter {name!r} has no value; write {name}=VALUE")
        yield unquote(name), unquote(value)


def _hosts_and_ports(places: str) -> Iterator[tuple[str, str]]:
    matches = [match for place in places.split(",") if (match := _HOST_AND_PORT.fullmatch(place))]
    yield "host", ",".join(unquote(match["host"].strip("[]")) for match in matches)
    if any(match["port"] for match in matches):
        yield "port", ",".join(match["port"] or "" for match in matches)


def _pairs_of_conninfo(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        pair = _CONNINFO_PAIR.match(text, position)
        if pair is None:
            # What stands there may be a part of a password: it is not repeated.
            raise _fault(f"what follows position {position} is not 'key=value'; {_REMEDY}")
        name, value = pair.groups()
        value = value[1:-1] if value.startswith("'") else value
        yield name, re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        position = pair.end()
    if not text:
        raise _fault(f"it is empty; {_REMEDY}")


def _url_of(found: Mapping[str, str]) -> DatabaseUrl:
    faults = [words for name, value in found.items() if (words := _fault_of(name, value))]
    hosts = tuple((found.get("hostaddr") or found.get("host") or "").split(",")) if _names_host(found) else ()
    ports = tuple(_port_of(port, faults) for port in found["port"].split(",")) if found.get("port") else ()
    if len(ports) > 1 and len(ports) != len(hosts):
        faults.append(f"port: {len(ports)} ports do not go with {len(hosts)} hosts; give one, or one for each host")
    if faults:
        raise ConfigError([f"{_KEY}: {words}" for words in faults])
    return DatabaseUrl(
        hosts=hosts,
        ports=ports,
        user=found.get("user") or None,
        password=found.get("password") or None,
        database=found.get("dbname") or None,
        tls=_only(found, _TLS),
        numbers={name: int(value) for name, value in _only(found, _SECONDS_AND_COUNTS).items()},
        server_settings=_only(found, _SENT_TO_SERVER),
        passed_on=_only(found, _PASSED_ON),
    )


def _names_host(found: Mapping[str, str]) -> bool:
    return bool(found.get("hostaddr") or found.get("host"))


def _only(found: Mapping[str, str], names: frozenset[str]) -> Mapping[str, str]:
    return {name: value for name, value in found.items() if name in names and value}


def _port_of(text: str, faults: list[str]) -> int:
    default = 5432
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        faults.append("port: it is not a number from 1 to 65535; write HOST:PORT, and a ':' in a password as %3A")
        return default
    return int(text)


def _fault_of(name: str, value: str) -> str | None:
    """Return what is wrong with one parameter. Only values of parameters that hold no secret are repeated."""
    if name in _SECONDS_AND_COUNTS:
        if value and not re.fullmatch(r"\d{1,9}", value, flags=re.ASCII):
            return f"{name}: {value!r} is not a whole number; libpq takes seconds (tcp_user_timeout: milliseconds)"
        return None
    lenient = _ONLY_WHEN_LENIENT.get(name)
    if lenient is not None:
        if value.lower() not in lenient:
            return f"{name}: the driver can't honour {value!r}; remove the parameter"
        return None
    if name in _ADDRESS | _TLS | _SENT_TO_SERVER | _PASSED_ON | _WITHOUT_MEANING_HERE:
        return None
    return f"{name}: not a parameter of libpq; remove it, or give a server setting as options=-c%20{name}%3DVALUE"
