"""The generated protobuf code is current, and drift does not go unseen."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

GENERATOR = Path(__file__).parents[2] / ".ci" / "generate_protos.py"


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_protos", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_code_is_what_the_generator_writes(generator: ModuleType) -> None:
    assert generator.present_files() == generator.generate()


def test_drift_is_named_by_file(generator: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"same.py": "1", "changed.py": "1", "gone.py": "1"}
    assert generator.report_drift(wanted, {"same.py": "1", "changed.py": "2", "extra.py": "1"}) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition("/_pb/")[2] for line in lines[:-1]] == [
        "changed.py: stale",
        "extra.py: not from protos/",
        "gone.py: missing",
    ]
    assert "make protos" in lines[-1]


def test_without_drift_nothing_is_said(generator: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert generator.report_drift({"same.py": "1"}, {"same.py": "1"}) == 0
    assert capsys.readouterr().err == ""
