"""Make the tables: Flyte's two where they are absent, and the worker's own.

Tables that Flyte made are used as they are and never dropped: what this revision makes carries a comment that says so.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import BYTEA, TIMESTAMP

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MADE_BY_WORKER = "Made by scheduler-worker migrate."
INSTANT = TIMESTAMP(timezone=True)
NEEDED_OF_FLYTE = {
    "triggers": (
        "id project domain task_name name latest_revision spec automation_spec task_version active automation_type"
        " deployed_by updated_by deployed_at updated_at triggered_at deleted_at description"
    ),
    "trigger_revisions": (
        "project domain task_name name revision spec automation_spec task_version active automation_type deployed_by"
        " updated_by deployed_at updated_at triggered_at deleted_at action created_at"
    ),
}


def upgrade() -> None:
    """Make what is absent."""
    if not already_there("triggers"):
        make_triggers()
    if not already_there("trigger_revisions"):
        make_trigger_revisions()
    make_progress()
    make_unfired()


def downgrade() -> None:
    """Drop the worker's tables, and Flyte's if the worker made them."""
    op.drop_table("scheduler_unfired")
    op.drop_table("scheduler_progress")
    for table in ("trigger_revisions", "triggers"):
        comment = op.get_bind().scalar(
            sa.text("SELECT obj_description(to_regclass(:table), 'pg_class')"), {"table": table}
        )
        if comment == MADE_BY_WORKER:
            op.drop_table(table)


def already_there(table: str) -> bool:
    """Say whether `table` exists, and refuse one that lacks a column the worker reads or writes."""
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(table):
        return False
    missing = set(NEEDED_OF_FLYTE[table].split()) - {column["name"] for column in inspector.get_columns(table)}
    if missing:
        raise RuntimeError(
            f"the table {table} exists but lacks {', '.join(sorted(missing))};"
            " migrate Flyte's database to 2.0 first, or use a database of its own"
        )
    return True


def state_columns() -> list[sa.Column[object]]:
    """Return the columns that a trigger and each of its snapshots share."""
    return [
        sa.Column("spec", BYTEA, nullable=False),
        sa.Column("automation_spec", BYTEA),
        sa.Column("task_version", sa.Text, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("automation_type", sa.Text, nullable=False, server_default="TYPE_NONE"),
        sa.Column("deployed_by", sa.Text),
        sa.Column("updated_by", sa.Text),
        sa.Column("deployed_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("triggered_at", INSTANT),
        sa.Column("deleted_at", INSTANT),
    ]


def make_triggers() -> None:
    """Make the table of triggers as Flyte does."""
    op.create_table(
        "triggers",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=True),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("task_name", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("latest_revision", sa.BigInteger, nullable=False, server_default=sa.text("1")),
        *state_columns(),
        sa.Column("description", sa.Text),
        comment=MADE_BY_WORKER,
    )
    op.create_index("idx_triggers_name", "triggers", ["project", "domain", "task_name", "name"], unique=True)
    op.create_index("idx_triggers_schedule_lookup", "triggers", ["active", "automation_type"])


def make_trigger_revisions() -> None:
    """Make the table of snapshots as Flyte does."""
    op.create_table(
        "trigger_revisions",
        sa.Column("project", sa.Text, primary_key=True),
        sa.Column("domain", sa.Text, primary_key=True),
        sa.Column("task_name", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        *state_columns(),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False, server_default=sa.func.current_timestamp()),
        comment=MADE_BY_WORKER,
    )


def make_progress() -> None:
    """Make the table of how far each trigger is settled: one small row, written again about once a second."""
    op.create_table(
        "scheduler_progress",
        sa.Column("trigger_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("confirmed_through", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("last_fire_time", INSTANT),
        sa.Column("last_run_name", sa.Text),
        sa.Column("last_outcome", sa.Text),
        sa.Column("last_lateness_ms", sa.Double),
        sa.Column("updated_at", INSTANT, nullable=False),
    )
    # Room for the next version of a row on its own page keeps updates away from the index.
    op.execute("ALTER TABLE scheduler_progress SET (fillfactor = 50)")


def make_unfired() -> None:
    """Make the table of fire times that did not become a run."""
    op.create_table(
        "scheduler_unfired",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=True),
        sa.Column("trigger_id", sa.BigInteger, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("task_name", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("fire_time", INSTANT, nullable=False),
        sa.Column("run_name", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("code", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("recorded_at", INSTANT, nullable=False),
        sa.Column("retry_requested_at", INSTANT),
        sa.UniqueConstraint("trigger_id", "fire_time", name="scheduler_unfired_trigger_id_fire_time_key"),
    )
    op.create_index("scheduler_unfired_recorded_at_idx", "scheduler_unfired", ["recorded_at"])
    op.create_index(
        "scheduler_unfired_retry_requested_at_idx",
        "scheduler_unfired",
        ["retry_requested_at"],
        postgresql_where=sa.text("retry_requested_at IS NOT NULL"),
    )
