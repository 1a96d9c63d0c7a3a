"""The times of a block whose records are not yet written, since its processes for the memory are still to come: a file in the
results folder, so that an interruption costs nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from framebench.engine.environments import Environment
from framebench.engine.supervisor import Outcome
from framebench.engine.timed_process import Arm, Timed
from framebench.records.record import Turns
from framebench.suite.case import Case


def file_of(results: Path, block: str) -> Path:
    return results / f".block-{hashlib.sha256(block.encode()).hexdigest()[:16]}.json"


def write(results: Path, block: str, timed: list[Timed]) -> None:
    """Atomically. Raises OSError."""
    results.mkdir(parents=True, exist_ok=True)
    text = json.dumps([as_dict(one) for one in timed])
    temporary = file_of(results, block).with_suffix(".tmp")
    try:
        temporary.write_text(text)
        os.replace(temporary, file_of(results, block))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(results: Path, block: str) -> list[Timed]:
    """Nothing if there is nothing, or nothing that can be read: the block is measured then."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return [from_dict(one) for one in json.loads(file_of(results, block).read_text())]
    return []


def remove(results: Path, block: str) -> None:
    """Raises OSError."""
    file_of(results, block).unlink(missing_ok=True)


def as_dict(timed: Timed) -> dict[str, object]:
    arm, where = timed.arm, timed.arm.environment
    fields = {"case": arm.case.id, "spin": arm.spin, "extra": arm.extra, "framework": where.framework, "version": where.version}
    fields |= {"python": str(where.python), "home": str(where.home) if where.home else None, "installed": where.installed}
    return fields | {
        "turns": timed.turns.model_dump(),
        "outcome": asdict(timed.outcome),
        "cold": timed.cold,
        "load": timed.load,
    }


def from_dict(fields: dict[str, object]) -> Timed:
    """Raises ValueError, KeyError or TypeError for what is none."""
    home = fields["home"]
    where = Environment(
        str(fields["framework"]), str(fields["version"]), Path(str(fields["python"])), Path(str(home)) if home else None,
        bool(fields["installed"]),
    )  # fmt: skip
    arm = Arm(Case.of(str(fields["case"])), where, float(str(fields["spin"])), float(str(fields["extra"])))
    return Timed(arm, Turns.model_validate(fields["turns"]), Outcome(**fields["outcome"]), bool(fields["cold"]), fields["load"])  # type: ignore[arg-type]
