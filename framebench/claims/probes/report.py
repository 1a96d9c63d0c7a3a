"""Try a user's report: `python -m framebench.claims.probes.report FRAMEWORK NUMBER`, in the framework's environment."""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    """Print the numbers that decide, by name: bytes, counts or values, as the report's function says."""
    framework, number = sys.argv[1:]
    module = importlib.import_module(f"framebench.claims.{framework}_reports")
    print(json.dumps(module.REPORTS[number]()))


if __name__ == "__main__":
    main()
