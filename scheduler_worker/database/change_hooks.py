"""The hooks on the table of triggers that make Postgres notify a change.

Decides how they are put on and taken off. They are a convenience: the worker finds every change by comparing, so a
database whose owner grants no right to hook its table loses seconds and nothing else.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

_HOOKS: Final = {
    "scheduler_notify_insert": "AFTER INSERT ON triggers REFERENCING NEW TABLE AS new_rows",
    "scheduler_notify_update": "AFTER UPDATE ON triggers REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows",
    "scheduler_notify_delete": "AFTER DELETE ON triggers REFERENCING OLD TABLE AS old_rows",
}
# Hooking needs a short lock on a table that is in use; waiting longer for it would hold up Flyte's own writes.
_LOCK_TIMEOUT: Final = "5s"


async def are_installed(connection: AsyncConnection) -> bool:
    """Say whether every hook is on the table."""
    return await _count(connection) == len(_HOOKS)


async def are_permitted(connection: AsyncConnection) -> bool:
    """Say whether the user may put hooks on the table and call the function."""
    statement = sa.text(
        "SELECT has_table_privilege('triggers', 'TRIGGER')"
        " AND has_function_privilege('scheduler_notify_triggers()', 'EXECUTE')"
    )
    return bool(await connection.scalar(statement))


async def install(connection: AsyncConnection) -> None:
    """Put every hook on the table; one that is there is made anew."""
    await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
    for name, when in _HOOKS.items():
        await connection.execute(
            sa.text(
                f"CREATE OR REPLACE TRIGGER {name} {when}"
                " FOR EACH STATEMENT EXECUTE FUNCTION scheduler_notify_triggers()"
            )
        )


async def remove(connection: AsyncConnection) -> None:
    """Take every hook off the table; none there is fine. Needs the rights of the table's owner."""
    if await _count(connection) == 0:
        return
    await connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'"))
    for name in _HOOKS:
        await connection.execute(sa.text(f"DROP TRIGGER IF EXISTS {name} ON triggers"))


async def _count(connection: AsyncConnection) -> int:
    statement = sa.text(
        "SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass('triggers') AND tgname = ANY(:names)"
    )
    return int(await connection.scalar(statement, {"names": list(_HOOKS)}) or 0)
