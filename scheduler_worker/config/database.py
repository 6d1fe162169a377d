"""The database's address, put together from where its parts are written.

Decides which of several addresses and passwords counts, and reads secrets from files. Must never show a password.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from scheduler_worker.config.sources import PREFIX, Given, Layer
from scheduler_worker.domain.database_url import parse_database_url
from scheduler_worker.errors import ConfigError

URL: Final = "database_url"
URL_FILE: Final = "database_url_file"
PASSWORD_FILE: Final = "database_password_file"  # noqa: S105 - the name of a setting
NAMES: Final = frozenset({URL, URL_FILE, PASSWORD_FILE})

# Flyte's key, and libpq's for the same.
_PARTS: Final[Mapping[str, str]] = {
    "host": "host",
    "port": "port",
    "dbname": "dbname",
    "username": "user",
    "password": "password",
}
_MISSING: Final = (
    f"{PREFIX}DATABASE_URL: missing; set it to postgresql://USER:PASSWORD@HOST:PORT/DATABASE,"
    f" or set {PREFIX}DATABASE_URL_FILE, or runs.database.postgres in the file"
)


def database_url_of(layers: list[Layer], postgres: Given | None, faults: list[str]) -> Given | None:
    """Return the address to use, or None after adding what is wrong with it.

    Args:
        layers: values by our names, the one that counts first. They may hold `NAMES`.
        postgres: Flyte's section; it counts after all layers.
        faults: grows by what is wrong.
    """
    address = _address(layers, postgres, faults)
    if address is None:
        return None
    address = _with_password_file(address, layers, faults)
    try:
        parse_database_url(address.value)
    except ConfigError as error:
        faults.extend(f"{address.key}: {fault.removeprefix('database_url: ')}" for fault in error.faults)
        return None
    return address


def _address(layers: list[Layer], postgres: Given | None, faults: list[str]) -> Given | None:
    for layer in layers:
        url, file = layer.get(URL), layer.get(URL_FILE)
        if url and file:
            faults.append(f"{url.key}: {file.key} is set as well; remove one of the two")
            return None
        if url:
            return Given(url.key, str(url.value), url.rank, url.origin)
        if file:
            return _from_file(file, faults)
    if postgres is not None:
        return _flyte_address(postgres, faults)
    faults.append(_MISSING)
    return None


def _flyte_address(postgres: Given, faults: list[str]) -> Given | None:
    section: Mapping[str, Any] = {str(name).lower(): value for name, value in postgres.value.items()}
    if not section.get("host"):
        faults.append(f"{postgres.key}.host: missing in {postgres.origin}; name the host of Postgres")
        return None
    parts = {ours: section[theirs] for theirs, ours in _PARTS.items() if section.get(theirs) not in {None, ""}}
    if section.get("passwordpath"):
        given = Given(f"{postgres.key}.passwordPath", section["passwordpath"], postgres.rank, postgres.origin)
        password = _from_file(given, faults)
        if password is None:
            return None
        parts["password"] = password.value
    pairs = [f"{name}={_in_quotes(str(value))}" for name, value in parts.items()]
    if section.get("options"):
        pairs.append(str(section["options"]))
    return Given(postgres.key, " ".join(pairs), postgres.rank, postgres.origin)


def _with_password_file(address: Given, layers: list[Layer], faults: list[str]) -> Given:
    file = next((layer[PASSWORD_FILE] for layer in layers if PASSWORD_FILE in layer), None)
    if file is None or file.rank > address.rank:
        return address
    password = _from_file(file, faults)
    if password is None:
        return address
    try:
        has_password = parse_database_url(address.value).password is not None
    except ConfigError:
        return address  # its faults are found again, and reported once
    if has_password and file.rank == address.rank:
        faults.append(f"{file.key}: {address.key} holds a password already; remove one of the two")
        return address
    if "://" in address.value:
        joint = "&" if "?" in address.value else "?"
        text = f"{address.value}{joint}password={quote(password.value, safe='')}"
    else:
        text = f"{address.value} password={_in_quotes(password.value)}"
    return Given(address.key, text, address.rank, address.origin)


def _in_quotes(value: str) -> str:
    """Return `value` as libpq's key/value form wants it."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _from_file(given: Given, faults: list[str]) -> Given | None:
    """Return the text of the file that `given` names, without the line break at its end."""
    path = Path(str(given.value).strip())
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as fault:
        faults.append(f"{given.key}: can't read {str(path)!r}: {fault.strerror}; name a file that can be read")
        return None
    except ValueError:
        faults.append(f"{given.key}: {str(path)!r} does not hold text in UTF-8; write the secret as such")
        return None
    if not text.strip():
        faults.append(f"{given.key}: {str(path)!r} is empty; write the secret into it")
        return None
    return Given(given.key, text, given.rank, given.origin)
