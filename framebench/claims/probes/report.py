"""A user's report, tried anew: `python -m framebench.claims.probes.report FRAMEWORK NUMBER`, in the framework's
environment."""

from __future__ import annotations

import importlib
import json
import sys


def tried(framework: str, number: str) -> dict[str, float]:
    """The numbers that decide, by name: bytes, counts or values, as the report's function says."""
    module = importlib.import_module(f"framebench.claims.{framework}_reports")
    report_numbers: dict[str, float] = module.REPORTS[number]()
    return report_numbers


if __name__ == "__main__":
    print(json.dumps(tried(sys.argv[1], sys.argv[2])))
