"""The machine that the figures belong to."""

import os
import platform
from pathlib import Path

import psutil


def description() -> dict[str, object]:
    """Return what a reader needs to judge the figures."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "postgres": "embedded, fsync off, Unix socket",
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
