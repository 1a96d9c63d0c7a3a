"""A user's report, tried anew: `python -m framebench.features.claims.probes.report FRAMEWORK NUMBER`, in the framework's
environment."""

from __future__ import annotations

import importlib
import json
import sys


def tried(framework: str, number: str) -> dict[str, float]:
    """The numbers that decide, by name: bytes, counts or values, as the report's function says."""
    found: dict[str, float] = importlib.import_module(f"framebench.features.claims.reports.{framework}").REPORTS[number]()
    return found


if __name__ == "__main__":
    print(json.dumps(tried(sys.argv[1], sys.argv[2])))
