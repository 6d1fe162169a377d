"""Addresses of Postgres in every form that libpq reads."""

import pytest

from scheduler_worker.domain.database_url import DatabaseUrl, parse_database_url, redacted
from scheduler_worker.errors import ConfigError

SECRET = "s3cr3t"


def url(**values: object) -> DatabaseUrl:
    return DatabaseUrl(**values)  # type: ignore[arg-type]  # the table of cases names fields


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://", url()),
        ("postgres://h", url(hosts=("h",))),
        ("postgresql+asyncpg://u@h/d", url(hosts=("h",), user="u", database="d")),
        ("POSTGRESQL://h:5433/d", url(hosts=("h",), ports=(5433,), database="d")),
        ("postgresql://u:p%40%2Fw@h/d%20b", url(hosts=("h",), user="u", password="p@/w", database="d b")),
        ("postgresql://u:p@w@h/d", url(hosts=("h",), user="u", password="p@w", database="d")),
        ("postgresql://u:@h", url(hosts=("h",), user="u")),
        ("postgresql://[::1]:5433/d", url(hosts=("::1",), ports=(5433,), database="d")),
        ("postgresql://a:1,b:2/d", url(hosts=("a", "b"), ports=(1, 2), database="d")),
        ("postgresql://a,b:2/d", url(hosts=("a", "b"), ports=(5432, 2), database="d")),
        ("postgresql://a,b/d", url(hosts=("a", "b"), database="d")),
        ("postgresql:///d?host=/run/pg&port=6000", url(hosts=("/run/pg",), ports=(6000,), database="d")),
        ("postgresql://%2Frun%2Fpg/d", url(hosts=("/run/pg",), database="d")),
        ("postgresql://u@/d?host=/run/pg", url(hosts=("/run/pg",), user="u", database="d")),
        ("postgresql://h/d?user=u&password=p%26q", url(hosts=("h",), user="u", password="p&q", database="d")),
        ("postgresql://h?dbname=d", url(hosts=("h",), database="d")),
        (
            "host=/run/pg dbname=x user=y password='a b'",
            url(hosts=("/run/pg",), database="x", user="y", password="a b"),
        ),
        (r"host = h password='it\'s \\' dbname=a\ b", url(hosts=("h",), password="it's \\", database="a b")),
        ("host=a,b port=1,2", url(hosts=("a", "b"), ports=(1, 2))),
        ("host=name hostaddr=10.0.0.1", url(hosts=("10.0.0.1",))),
        ("host=h port=''", url(hosts=("h",))),
        ("host=h password=p://w", url(hosts=("h",), password="p://w")),
        ("postgresql://h?sslmode=require&sslcert=/c", url(hosts=("h",), tls={"sslmode": "require", "sslcert": "/c"})),
        ("postgresql://h?ssl=require", url(hosts=("h",), tls={"sslmode": "require"})),
        (
            "postgresql://h?connect_timeout=3&keepalives_idle=10&tcp_user_timeout=0",
            url(hosts=("h",), numbers={"connect_timeout": 3, "keepalives_idle": 10, "tcp_user_timeout": 0}),
        ),
        (
            "postgresql://h?application_name=me&options=-c%20search_path%3Dflyte",
            url(hosts=("h",), server_settings={"application_name": "me", "options": "-c search_path=flyte"}),
        ),
        (
            "postgresql://h?target_session_attrs=primary&passfile=/p",
            url(hosts=("h",), passed_on={"target_session_attrs": "primary", "passfile": "/p"}),
        ),
        ("postgresql://h?client_encoding=utf8&channel_binding=prefer&gssencmode=disable", url(hosts=("h",))),
    ],
)
def test_it_is_read(text: str, expected: DatabaseUrl) -> None:
    assert parse_database_url(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty; write postgresql://"),
        ("mysql://h/d", "scheme 'mysql' is not Postgres"),
        ("localhost", "position 0 is not 'key=value'"),
        (f"host=h password='{SECRET}", "position 6 is not 'key=value'"),
        (f"postgresql://u:{SECRET}/x@h/d", "as %2F"),
        (f"postgresql://u:{SECRET}", "port: it is not a number"),
        ("postgresql://h:70000/d", "port: it is not a number from 1 to 65535"),
        ("host=a,b,c port=1,2", "2 ports do not go with 3 hosts"),
        ("postgresql://h?sslmode", "'sslmode' has no value; write sslmode=VALUE"),
        ("postgresql://h?connect_timeout=soon", "connect_timeout: 'soon' is not a whole number"),
        ("postgresql://h?channel_binding=require", "channel_binding: the driver can't honour 'require'; remove"),
        ("postgresql://h?replication=database", "replication: the driver can't honour 'database'"),
        ("postgresql://h?search_path=flyte", "search_path: not a parameter of libpq; .* options=-c%20search_path%3D"),
    ],
)
def test_it_is_refused_with_a_remedy_and_without_the_password(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^database_url: .*{words}") as caught:
        parse_database_url(text)
    assert SECRET not in str(caught.value)


def test_all_faults_are_told_together() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_database_url("host=h port=x nonsense=1 replication=on")
    assert len(caught.value.faults) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"postgresql://u:{SECRET}@a:1,b:2/d?sslpassword={SECRET}", "postgresql://u@a:1,b:2/d"),
        (f"host=/run/pg dbname=x password='{SECRET}'", "postgresql:///run/pg/x"),
        ("postgresql://a,b/d?port=7", "postgresql://a:7,b:7/d"),
        (f"nonsense {SECRET}", "an unreadable database URL"),
    ],
)
def test_a_log_never_sees_the_password(text: str, expected: str) -> None:
    assert redacted(text) == expected


def test_repr_hides_secrets() -> None:
    shown = repr(parse_database_url(f"postgresql://u:{SECRET}@h/d?sslpassword={SECRET}"))
    assert SECRET not in shown
    assert "'u'" in shown
