"""Triggers that were deployed some time ago, written by SQL as Flyte does: a row and its snapshot."""

from datetime import datetime

from scheduler_worker.domain.schedule import CronRule
from scheduler_worker.run_service.codec import encode_automation, encode_trigger_spec
from tests.chaos.stage import Stage

_COLUMNS = (
    "project, domain, task_name, name, spec, automation_spec, task_version, active, automation_type, deployed_at,"
    " updated_at"
)
_DEPLOY = f"""
    WITH deployed AS (
        INSERT INTO triggers ({_COLUMNS})
        SELECT 'p', 'd', 't', $1 || number, $2, $3, 'v', true, 'TYPE_SCHEDULE', $4, $4
        FROM generate_series(1, $5) AS number
        RETURNING *
    )
    INSERT INTO trigger_revisions ({_COLUMNS}, revision, action)
    SELECT {_COLUMNS}, latest_revision, 'TRIGGER_REVISION_ACTION_DEPLOY' FROM deployed
"""


async def deploy_since(stage: Stage, cron: str, *, since: datetime, count: int, prefix: str = "n") -> None:
    """Deploy `count` triggers with the same schedule, active since `since` and never fired."""
    spec, automation = encode_trigger_spec(active=True), encode_automation(CronRule(cron))
    async with stage.connection() as connection:
        await connection.execute(_DEPLOY, prefix, spec, automation, since, count)


async def forget_triggers(stage: Stage) -> None:
    """Empty all tables."""
    async with stage.connection() as connection:
        await connection.execute("TRUNCATE triggers, trigger_revisions, scheduler_progress, scheduler_unfired")
