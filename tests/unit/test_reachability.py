"""When the Run Service counts as unreachable, and when again as there."""

from scheduler_worker.reachability import FAILURES_UNTIL_UNREACHABLE, PROBE_INTERVAL_SECONDS, Reachability


def unreachable(at: float = 0.0) -> Reachability:
    service = Reachability(on_change=lambda _: None)
    for _ in range(FAILURES_UNTIL_UNREACHABLE):
        service.failed("UNAVAILABLE", now=at)
    assert not service.is_reachable
    return service


def test_one_call_that_hangs_does_not_stop_the_others() -> None:
    service = Reachability(on_change=lambda _: None)
    for _ in range(10):
        service.failed("DEADLINE_EXCEEDED", now=0.0)
        service.answered()
    assert service.is_reachable


def test_a_refusal_is_an_answer() -> None:
    service = Reachability(on_change=lambda _: None)
    for _ in range(10):
        service.failed("PERMISSION_DENIED", now=0.0)
    assert service.is_reachable


def test_any_answer_opens_the_way_again() -> None:
    seen: list[bool] = []
    service = Reachability(on_change=seen.append)
    for _ in range(FAILURES_UNTIL_UNREACHABLE + 3):
        service.failed("UNAVAILABLE", now=0.0)
    service.failed("INVALID_ARGUMENT", now=1.0)
    assert service.is_reachable
    assert seen == [False, True]


def test_probes_are_more_than_a_second_apart() -> None:
    service = unreachable()
    assert service.probe_wait(now=0.0) == PROBE_INTERVAL_SECONDS > 1.0
    assert service.probe_wait(now=PROBE_INTERVAL_SECONDS) == 0.0
    service.failed("UNAVAILABLE", now=5.0)
    assert service.probe_wait(now=5.5) > 0.5
