from pathlib import Path

import pytest
import typer

from scheduler_worker.cli.demo_stand import DemoFolder, demo_folder


def test_a_folder_is_made_and_can_be_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        with demo_folder(tmp_path / "new" / "data") as folder:
            assert folder.path == tmp_path / "new" / "data"
            assert folder.path.is_dir()


def test_a_folder_serves_one_demo_at_a_time(tmp_path: Path) -> None:
    with (
        demo_folder(tmp_path),
        pytest.raises(typer.BadParameter, match=r"another demo runs on '.+'; stop it, or name another folder"),
        demo_folder(tmp_path),
    ):
        pass


@pytest.mark.parametrize("place", ["taken/data", "taken"])
def test_a_folder_that_cannot_be_one_is_bad_input(tmp_path: Path, place: str) -> None:
    (tmp_path / "taken").write_text("a file")
    with (
        pytest.raises(typer.BadParameter, match=r"can't use '.+': .+; name a folder that can be written to"),
        demo_folder(tmp_path / place),
    ):
        pass


def test_an_error_of_the_demo_itself_is_no_fault_of_the_folder(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the demo's own"), demo_folder(tmp_path):
        raise OSError("the demo's own")


@pytest.mark.parametrize(("postgres", "places"), [("/a/b", ["/a"]), ("/elsewhere", ["/a", "/elsewhere"])])
def test_postgres_is_named_as_a_place_only_when_it_is_elsewhere(
    monkeypatch: pytest.MonkeyPatch, postgres: str, places: list[str]
) -> None:
    monkeypatch.setattr("scheduler_worker.cli.demo_stand.reachable_data_dir", lambda _: Path(postgres))
    assert [str(place) for place in DemoFolder(Path("/a")).places] == places
