"""A user's report, tried anew: `python -m framebench.features.claims.probes.report FRAMEWORK NUMBER`, in the framework's
environment."""

from __future__ import annotations

import json
import sys

from framebench import extensions


def tried(framework: str, number: str) -> dict[str, float]:
    """The numbers that decide, by name: bytes, counts or values, as the report's function says."""
    report_numbers: dict[str, float] = extensions.of_framework("claims", "reports", framework).REPORTS[number]()
    return report_numbers


if __name__ == "__main__":
    print(json.dumps(tried(sys.argv[1], sys.argv[2])))
