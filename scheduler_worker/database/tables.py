"""The tables, as the migrations make them: Flyte's two, whose form is given, and the worker's own.

Decides nothing at run time. The worker's own tables carry the prefix ``scheduler_``, so that they can live in Flyte's
database; Flyte's tables must never get a column here that Flyte does not have.
"""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, TIMESTAMP

MADE_BY_WORKER = "Made by scheduler-worker migrate."
"""Comment on Flyte's tables where the worker made them: only then may taking the migration back drop them."""

metadata = sa.MetaData()

_INSTANT = TIMESTAMP(timezone=True)


def _state_columns() -> list[sa.Column[object]]:
    """Return the columns that a trigger and each of its snapshots share."""
    return [
        sa.Column("spec", BYTEA, nullable=False),
        sa.Column("automation_spec", BYTEA),
        sa.Column("task_version", sa.Text, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("automation_type", sa.Text, nullable=False, server_default="TYPE_NONE"),
        sa.Column("deployed_by", sa.Text),
        sa.Column("updated_by", sa.Text),
        sa.Column("deployed_at", _INSTANT, nullable=False),
        sa.Column("updated_at", _INSTANT, nullable=False),
        sa.Column("triggered_at", _INSTANT),
        sa.Column("deleted_at", _INSTANT),
    ]


triggers = sa.Table(
    "triggers",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=True),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("domain", sa.Text, nullable=False),
    sa.Column("task_name", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("latest_revision", sa.BigInteger, nullable=False, server_default=sa.text("1")),
    *_state_columns(),
    sa.Column("description", sa.Text),
    sa.Index("idx_triggers_name", "project", "domain", "task_name", "name", unique=True),
    sa.Index("idx_triggers_schedule_lookup", "active", "automation_type"),
    comment=MADE_BY_WORKER,
)

trigger_revisions = sa.Table(
    "trigger_revisions",
    metadata,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("domain", sa.Text, primary_key=True),
    sa.Column("task_name", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    *_state_columns(),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("created_at", _INSTANT, nullable=False, server_default=sa.func.current_timestamp()),
    comment=MADE_BY_WORKER,
)

scheduler_progress = sa.Table(
    "scheduler_progress",
    metadata,
    # No foreign key: the worker's writes must neither lock Flyte's rows nor fail because Flyte removed one.
    sa.Column("trigger_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("confirmed_through", _INSTANT, nullable=False),
    # Of the trigger: what the mark was made by. Times of a newer revision are not covered by it.
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("last_fire_time", _INSTANT),
    sa.Column("last_run_name", sa.Text),
    sa.Column("last_outcome", sa.Text),
    sa.Column("last_lateness_ms", sa.Double),
    sa.Column("updated_at", _INSTANT, nullable=False),
)

scheduler_unfired = sa.Table(
    "scheduler_unfired",
    metadata,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=True),
    sa.Column("trigger_id", sa.BigInteger, nullable=False),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("domain", sa.Text, nullable=False),
    sa.Column("task_name", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("fire_time", _INSTANT, nullable=False),
    sa.Column("run_name", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("code", sa.Text),
    sa.Column("message", sa.Text),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("recorded_at", _INSTANT, nullable=False),
    sa.Column("retry_requested_at", _INSTANT),
    sa.UniqueConstraint("trigger_id", "fire_time", name="scheduler_unfired_trigger_id_fire_time_key"),
    sa.Index("scheduler_unfired_recorded_at_idx", "recorded_at"),
    sa.Index(
        "scheduler_unfired_retry_requested_at_idx",
        "retry_requested_at",
        postgresql_where=sa.text("retry_requested_at IS NOT NULL"),
    ),
)
