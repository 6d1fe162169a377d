"""The database's address, put together from where its parts are written.

Decides which of several addresses and passwords counts, and reads secrets from files. Must never show a password.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from scheduler_worker.config.settings import variable_of
from scheduler_worker.config.sources import PASSWORD_FILE, URL, URL_FILE, Given, Section, Source
from scheduler_worker.domain.database_url import parse_database_url
from scheduler_worker.errors import ConfigError

# Flyte's key, and libpq's for the same.
_PARTS: Final[Mapping[str, str]] = {
    "host": "host",
    "port": "port",
    "dbname": "dbname",
    "username": "user",
    "password": "password",
}
_MISSING: Final = (
    f"{variable_of(URL)}: missing; set it to postgresql://USER:PASSWORD@HOST:PORT/DATABASE,"
    f" or set {variable_of(URL_FILE)}, or runs.database.postgres in the file"
)


class DatabaseSource(Section):
    """The setting `database_url`, from whichever source holds an address, with a password that stands in a file.

    Attributes:
        url: the address; empty when there are faults, so that the other settings can be judged all the same.
        faults: what is wrong with it.
    """

    def __init__(self, sources: Sequence[Source], postgres: Given | None) -> None:
        """Find the address in `sources`, the one that counts first, and then in Flyte's section `postgres`."""
        self.faults: tuple[str, ...] = ()
        try:
            address = _with_password_file(_address(sources, postgres), sources)
        except ConfigError as error:
            self.faults = error.faults
            address = Given(variable_of(URL), "", rank=0)
        self.url: str = address.value
        super().__init__({URL: address})


def _address(sources: Sequence[Source], postgres: Given | None) -> Given:
    for source in sources:
        url, file = source.given(URL), source.given(URL_FILE)
        if url and file:
            raise ConfigError([f"{url.key}: {file.key} is set as well; remove one of the two"])
        if url:
            return replace(url, value=str(url.value))
        if file:
            return replace(file, value=_text_in(file))
    if postgres is None:
        raise ConfigError([_MISSING])
    return replace(postgres, value=_conninfo(postgres))


def _conninfo(postgres: Given) -> str:
    section: Mapping[str, Any] = {str(name).lower(): value for name, value in postgres.value.items()}
    if not section.get("host"):
        raise ConfigError([f"{postgres.key}.host: missing in {postgres.file}; name the host of Postgres"])
    parts = {ours: section[theirs] for theirs, ours in _PARTS.items() if section.get(theirs) not in (None, "")}
    if path := section.get("passwordpath"):
        parts["password"] = _text_in(replace(postgres, key=f"{postgres.key}.passwordPath", value=path))
    pairs = [f"{name}={_in_quotes(str(value))}" for name, value in parts.items()]
    if options := section.get("options"):
        pairs.append(str(options))
    return " ".join(pairs)


def _with_password_file(address: Given, sources: Sequence[Source]) -> Given:
    """Return `address` with the password from a file, if one is named where the address is or where it counts more."""
    files = (source.given(PASSWORD_FILE) for source in sources)
    file = next((given for given in files if given and given.rank <= address.rank), None)
    faults: list[str] = []
    has_password = False
    try:
        has_password = parse_database_url(address.value).password is not None
    except ConfigError as error:
        faults += (f"{address.key}: {fault.removeprefix('database_url: ')}" for fault in error.faults)
    if file and file.rank == address.rank and has_password:
        faults.append(f"{file.key}: {address.key} holds a password already; remove one of the two")
    elif file:
        try:
            address = replace(address, value=_joined(address.value, _text_in(file)))
        except ConfigError as error:
            faults += error.faults
    if faults:
        raise ConfigError(faults)
    return address


def _joined(address: str, password: str) -> str:
    if "://" in address.partition("=")[0]:  # in the other form a key comes first
        return f"{address}{'&' if '?' in address else '?'}password={quote(password, safe='')}"
    return f"{address} password={_in_quotes(password)}"


def _in_quotes(value: str) -> str:
    """Return `value` as libpq's key/value form wants it."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _text_in(file: Given) -> str:
    """Return the text of the file that is named, without the line break at its end."""
    path = Path(str(file.value).strip())
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        reason = f"can't read {str(path)!r}: {error.strerror}; name a file that can be read"
        raise ConfigError([f"{file.key}: {reason}"]) from error
    except ValueError as error:
        reason = f"{str(path)!r} does not hold text in UTF-8; write the secret as such"
        raise ConfigError([f"{file.key}: {reason}"]) from error
    if not text.strip():
        raise ConfigError([f"{file.key}: {str(path)!r} is empty; write the secret into it"])
    return text
