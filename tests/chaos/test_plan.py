"""The plan is a function of its seed, so that what was found can be found again."""

from tests.chaos.plan import LANES, make_plan


def test_equal_seeds_make_equal_plans_and_others_do_not() -> None:
    assert make_plan(5, seconds=60, triggers=50) == make_plan(5, seconds=60, triggers=50)
    assert make_plan(5, seconds=60, triggers=50).steps != make_plan(6, seconds=60, triggers=50).steps


def test_a_long_plan_has_every_kind_of_fault_in_order() -> None:
    plan = make_plan(1, seconds=1800, triggers=100)
    assert [step.at for step in plan.steps] == sorted(step.at for step in plan.steps)
    assert {step.lane for step in plan.steps} == set(LANES)
    assert {step.kind for step in plan.steps} >= {
        *("kill", "terminate", "freeze", "stop", "crash", "cut connections", "misbehave"),
        *("reset connections", "cut the network", "delay the network"),
        *("edit", "pause", "resume", "delete", "deploy again", "move triggered_at"),
    }


def test_what_was_switched_off_comes_back_and_nothing_is_switched_off_twice() -> None:
    plan = make_plan(3, seconds=600, triggers=20)
    off: set[int] = set()
    for step in plan.steps:
        if step.kind in ("pause", "delete"):
            assert step.trigger not in off
            off.add(step.trigger)
        elif step.kind == "resume" or (step.kind == "edit" and step.trigger in off):
            off.discard(step.trigger)


def test_a_service_that_starts_repeats_is_spared_what_nobody_could_make_harmless() -> None:
    plan = make_plan(1, seconds=1800, triggers=10, doubles_count=True)
    assert "delay the network" not in {step.kind for step in plan.steps}
    assert "run_details" not in {name for step in plan.steps for name, _ in step.faults}
