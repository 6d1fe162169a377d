"""The worker as it is shipped, with a stall probe on its event loop.

Answers each line on standard input with the longest stall since the line before it, as a JSON line.
"""

import asyncio
import json
import os
import sys

from benchmarks.stall import StallProbe
from scheduler_worker import app
from scheduler_worker.config import load_settings
from scheduler_worker.telemetry.logs import configure_logging


async def _run() -> int:
    settings = load_settings(os.environ)
    configure_logging(level=settings.log_level, form=settings.log_format, instance=settings.instance)
    async with StallProbe() as probe:

        def answer() -> None:
            if not sys.stdin.readline():
                loop.remove_reader(sys.stdin)  # whoever asked has gone; the worker ends by its signal
                return
            print(json.dumps({"longest_stall_ms": probe.take_longest_ms()}), flush=True)

        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, answer)
        return await app.run(settings)


if __name__ == "__main__":
    sys.exit(asyncio.run(_run()))
