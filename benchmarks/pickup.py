"""From the commit of a new row until its trigger is armed, told by NOTIFY, in a large fleet."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from benchmarks.bench import Bench, Family
from benchmarks.figures import Reading, percentile
from scheduler_worker.database.connection import connect
from scheduler_worker.domain.database_url import parse_database_url

_ROWS = 100
_QUICK_ROWS = 20
_PAUSE_SECONDS = (0.1, 0.3)
"""Drawn anew between two rows, so that they do not fall in step with anything."""

_SETTLING_SECONDS = 3.0
_TIMEOUT_SECONDS = 60.0

_INSERT = """
    INSERT INTO triggers (project, domain, task_name, name, spec, automation_spec, task_version, active,
        automation_type, deployed_at, updated_at)
    SELECT project, domain, task_name, 'new' || $1, spec, automation_spec, task_version, active,
        automation_type, now(), now()
    FROM triggers ORDER BY id LIMIT 1 RETURNING id
"""


def _measure(bench: Bench) -> Iterator[Reading]:
    stack = bench.stack
    rows = _QUICK_ROWS if bench.quick else _ROWS
    with (
        stack.database(bench.triggers) as database,
        stack.mock() as (mock, _),
        stack.worker(database, mock) as worker,
    ):
        worker.wait_for_load()
        worker.wait_until(lambda: stack.marks(database) >= bench.triggers, timeout_seconds=60.0)
        time.sleep(_SETTLING_SECONDS)
        committed = dict(asyncio.run(_insert_rows(stack.postgres.url(database), rows)))
        worker.wait_until(lambda: len(list(worker.events("trigger_armed"))) >= rows, timeout_seconds=_TIMEOUT_SECONDS)
        waits_ms = [
            (datetime.fromisoformat(str(event["timestamp"])) - committed[int(str(event["trigger_id"]))]).total_seconds()
            * 1000
            for event in worker.events("trigger_armed")
        ]
    yield Reading(figure=f"pick-up, {bench.fleet} present, p50", value=percentile(waits_ms, 0.5), unit="ms")
    yield Reading(figure=f"pick-up, {bench.fleet} present, p99", value=percentile(waits_ms, 0.99), unit="ms", bar=250.0)


async def _insert_rows(url: str, rows: int) -> Sequence[tuple[int, datetime]]:
    """Insert rows one by one, and return the id of each and when its commit was acknowledged."""
    connection = await connect(parse_database_url(url))
    committed = []
    try:
        for number in range(rows):
            trigger_id = await connection.fetchval(_INSERT, str(number))
            committed.append((trigger_id, datetime.now(UTC)))
            await asyncio.sleep(random.uniform(*_PAUSE_SECONDS))
    finally:
        await connection.close()
    return committed


PICKUP = Family(name="pickup", measure=_measure)
