"""Try a user's report: `python -m framebench.claims.probes.report FRAMEWORK NUMBER`."""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    """Print the numbers that decide, by name."""
    framework, number = sys.argv[1:]
    module = importlib.import_module(f"framebench.claims.{framework}_reports")
    print(json.dumps(module.REPORTS[number]()))


if __name__ == "__main__":
    main()
