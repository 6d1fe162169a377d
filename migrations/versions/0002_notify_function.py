"""Make the function that tells listeners which triggers changed.

Only the function: putting it on the table of triggers needs a right that the worker may lack in Flyte's database, so
that step is apart (`scheduler_worker/database/change_hooks.py`) and may be left out.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# 350 ids of at most 20 characters and a comma stay below Postgres' limit of 8,000 bytes for one payload. Past 500 ids
# a listener does better to compare everything, which the payload '*' asks for.
FUNCTION = """
CREATE FUNCTION scheduler_notify_triggers() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(id) INTO ids FROM new_rows WHERE automation_type = 'TYPE_SCHEDULE';
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(id) INTO ids FROM old_rows WHERE automation_type = 'TYPE_SCHEDULE';
    ELSE
        SELECT array_agg(new_rows.id) INTO ids
        FROM new_rows LEFT JOIN old_rows ON old_rows.id = new_rows.id
        WHERE (old_rows.latest_revision, old_rows.active, old_rows.deleted_at, old_rows.automation_type)
            IS DISTINCT FROM (new_rows.latest_revision, new_rows.active, new_rows.deleted_at, new_rows.automation_type)
            OR old_rows.automation_spec IS DISTINCT FROM new_rows.automation_spec;
    END IF;
    IF cardinality(ids) > 500 THEN
        PERFORM pg_notify('scheduler_triggers', '*');
    ELSE
        FOR start IN 1 .. coalesce(cardinality(ids), 0) BY 350 LOOP
            PERFORM pg_notify('scheduler_triggers', array_to_string(ids[start : start + 349], ','));
        END LOOP;
    END IF;
    RETURN NULL;
END
$$
"""


def upgrade() -> None:
    """Make the function."""
    op.execute(FUNCTION)


def downgrade() -> None:
    """Drop it, and with it the hooks that call it."""
    op.execute("DROP FUNCTION scheduler_notify_triggers() CASCADE")
