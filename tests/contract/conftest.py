"""The official protobuf classes, in a process of their own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OFFICIAL_SIDE = Path(__file__).parent / "official_side.py"


class Official:
    """Asks the official side; see official_side.py for what it can do."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, **command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the official side died on {command}"
        return json.loads(answer)

    def write(self, message: str, content: dict[str, Any]) -> bytes:
        return bytes.fromhex(self.ask(do="write", message=message, json=content)["hex"])

    def read(self, message: str, serialized: bytes) -> Any:
        return self.ask(do="read", message=message, hex=serialized.hex())["json"]


@pytest.fixture(scope="session")
def official() -> Iterator[Official]:
    with subprocess.Popen(
        [sys.executable, str(OFFICIAL_SIDE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Official(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 0
