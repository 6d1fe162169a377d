"""What people do to triggers: deploy, edit, pause, resume, delete, through the same code as the command line."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

from scheduler_worker.database.engine import create_engine
from scheduler_worker.database.trigger_admin import TriggerAdmin, TriggerDefinition
from scheduler_worker.domain.database_url import parse_database_url
from scheduler_worker.domain.schedule import CronRule, RateRule
from scheduler_worker.domain.trigger import TriggerKey
from scheduler_worker.errors import DatabaseUnavailableError, TriggerNotFoundError
from scheduler_worker.run_service.codec import encode_automation, encode_trigger_spec
from tests.chaos.history import Key, Write
from tests.chaos.plan import Schedule, Step
from tests.chaos.stage import Stage

_RETRY_SECONDS = 0.2

_BAD_ROWS = """
    INSERT INTO triggers (project, domain, task_name, name, spec, automation_spec, task_version, active,
        automation_type, deployed_at, updated_at)
    SELECT 'p', 'd', 't', 'bad-' || number, '', spec, 'v', true, 'TYPE_SCHEDULE', now(), now()
    FROM unnest($1::bytea[]) WITH ORDINALITY AS bad (spec, number)
"""
_MOVE_TRIGGERED_AT = """
    UPDATE triggers SET triggered_at = now() WHERE (project, domain, task_name, name) = ($1, $2, $3, $4)
        AND id IN (SELECT trigger_id FROM scheduler_progress)
"""
_HAS_PROGRESS = """
    SELECT EXISTS (
        SELECT FROM scheduler_progress AS p JOIN triggers AS t ON t.id = p.trigger_id
        WHERE (project, domain, task_name, name) = ($1, $2, $3, $4)
    )
"""


def key_of(trigger: int) -> Key:
    """Return the key of the plan's trigger of that number."""
    return Key("p", "d", "t", f"n{trigger}")


class People:
    """Writes triggers, again and again until the database takes it, and notes when each revision was known to be in."""

    def __init__(self, stage: Stage, started_at: datetime) -> None:
        self._stage = stage
        self._started_at = started_at
        self._engine = create_engine(parse_database_url(stage.database_url))
        self._admin = TriggerAdmin(self._engine, by="chaos")
        self._definitions: dict[int, TriggerDefinition] = {}
        self.writes: dict[tuple[Key, int], Write] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()

    async def deploy(self, schedules: dict[int, Schedule]) -> None:
        """Deploy many at once."""
        for trigger, schedule in schedules.items():
            self._definitions[trigger] = self._definition(trigger, schedule, "v1")
        written = await self._admin.apply([self._definitions[trigger] for trigger in schedules])
        now = datetime.now(UTC)
        for one in written:
            self.writes[Key(*one.key), one.revision] = Write(asked_at=now, done_at=now, had_progress=False)

    async def write_bad_rows(self) -> int:
        """Write rows that no schedule can be made of, by SQL and without snapshots; return how many."""
        good = encode_automation(CronRule("* * * * *"))
        specs = [
            b"",
            b"\xff\xff\xff\xff",
            good[:-3],
            encode_automation(CronRule("0 0 30 2 *")),
            encode_automation(CronRule("* * * * *", "Mars/Olympus_Mons")),
            encode_automation(RateRule(0, "minute")),
        ]
        async with self._stage.connection() as connection:
            await connection.execute(_BAD_ROWS, specs)
        return len(specs)

    async def take(self, step: Step) -> None:
        """Do one step of the plan."""
        key = key_of(step.trigger)
        asked_at, had_progress = datetime.now(UTC), True
        while True:
            with contextlib.suppress(DatabaseUnavailableError, TimeoutError):
                async with asyncio.timeout(20):
                    # Of all tries: one whose answer was lost may have been the one that counts.
                    had_progress = had_progress and await self._has_progress(key)
                    revision = await self._write(step, key)
                if revision is not None:
                    done_at = datetime.now(UTC)
                    write = Write(asked_at=asked_at, done_at=done_at, had_progress=had_progress)
                    self.writes.setdefault((key, revision), write)
                return
            await asyncio.sleep(_RETRY_SECONDS)

    async def _write(self, step: Step, key: Key) -> int | None:
        target = TriggerKey(*key)
        definition = self._definitions[step.trigger]
        if step.kind == "edit":
            assert step.schedule is not None
            definition = self._definition(step.trigger, step.schedule, definition.task_version)
        elif step.kind == "deploy again":
            definition = self._definition_with_version(definition, f"v{step.at}")
        elif step.kind == "move triggered_at":
            async with self._stage.connection() as connection:
                await connection.execute(_MOVE_TRIGGERED_AT, *key)
            return None
        if step.kind in ("edit", "deploy again"):
            [written] = await self._admin.apply([definition])
            self._definitions[step.trigger] = definition
            return written.revision
        with contextlib.suppress(TriggerNotFoundError):  # deleted meanwhile, or the answer to the deletion was lost
            if step.kind == "delete":
                [written] = await self._admin.delete([target])
            else:
                [written] = await self._admin.set_active([target], active=step.kind == "resume")
            return written.revision
        return None

    async def _has_progress(self, key: Key) -> bool:
        async with self._stage.connection() as connection:
            return bool(await connection.fetchval(_HAS_PROGRESS, *key))

    def _definition(self, trigger: int, schedule: Schedule, version: str) -> TriggerDefinition:
        if schedule.rate_minutes:
            seconds = schedule.rate_from_seconds
            start = None if seconds is None else self._started_at + timedelta(seconds=seconds)
            rule: CronRule | RateRule = RateRule(schedule.rate_minutes, "minute", start)
        else:
            rule = CronRule(schedule.cron, schedule.zone)
        return TriggerDefinition(
            key=TriggerKey(*key_of(trigger)),
            automation_spec=encode_automation(rule),
            spec=encode_trigger_spec(active=True),
            task_version=version,
        )

    @staticmethod
    def _definition_with_version(definition: TriggerDefinition, version: str) -> TriggerDefinition:
        return TriggerDefinition(
            key=definition.key,
            automation_spec=definition.automation_spec,
            spec=definition.spec,
            task_version=version,
        )
