"""Where alembic meets the database: it runs on a connection that is handed to it, or opens one of its own.

The `migrate` command hands one over. The alembic command line, used to write new revisions, has none: it takes the
address from SCHEDULER_DATABASE_URL.
"""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection

from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.migrate import VERSION_TABLE, is_ours
from scheduler_worker.database.tables import metadata


def run_on(connection: Connection) -> None:
    """Run the asked-for revisions in one transaction, so that a failed one leaves nothing behind."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        include_name=is_ours,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_on_own_connection() -> None:
    """Open the database that the environment names."""
    engine = create_engine(os.environ["SCHEDULER_DATABASE_URL"])
    try:
        async with engine.connect() as connection:
            await connection.run_sync(run_on)
            await connection.commit()
    finally:
        await engine.dispose()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run_on(handed_over)
else:
    asyncio.run(run_on_own_connection())
