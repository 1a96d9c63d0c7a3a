"""Where and how a number came about."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = (PACKAGE.parent / "asv.conf.json").exists()  # else it was installed
ROOT = PACKAGE.parent if CHECKOUT else Path.cwd()  # below it lie results, and in a checkout the documents
LONGEST = 100  # letters of a machine's name, which becomes a folder's: so it has no strokes, and does not begin with a dot
MACHINE = re.compile(rf"\w[\w.-]{{0,{LONGEST - 1}}}")
ALL = "all"  # what `--machine` takes for every machine, so that none can be called so
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # as x86 and ARM processors name such instructions
MEASURING = ("framebench", "models", "benchmarks")  # the packages that a measurement imports
MOST_WORDS = 12  # of the command that a record keeps


def git(*arguments: str) -> str | None:
    """A git query on the project, or None where there is no git or no repository: an installed copy may lie in another one, and
    a copy whose commit $FRAMEBENCH_COMMIT tells may have the repository of an older one."""
    if not CHECKOUT or "FRAMEBENCH_COMMIT" in os.environ:
        return None
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def commit() -> str | None:
    """Of a copy it is what $FRAMEBENCH_COMMIT says."""
    return git("rev-parse", "HEAD") or os.environ.get("FRAMEBENCH_COMMIT")


def code() -> str | None:
    """The code that measures: the commit, and a fingerprint of what differs from it; results do not count. Of an installed copy
    its version."""
    if not CHECKOUT:
        return f"framebench {version('framebench')}"
    changes = (git("diff", "HEAD", "--", ".", ":!results") or "").encode()
    changes += b"".join(name.encode() + (ROOT / name).read_bytes() for name in _new_modules())
    return f"{commit()}+{hashlib.sha256(changes).hexdigest()[:10]}" if changes else commit()


def dirty() -> bool | None:
    """Whether the code differs from the commit; results do not count."""
    changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results")
    return None if changes is None else bool(changes or _new_modules())


def _new_modules() -> list[str]:
    """What git does not track yet and what measures could import all the same. What git is told to ignore stays ignored."""
    listing = git("ls-files", "--others", "--exclude-standard", "-z", "--", *(f"{package}/*.py" for package in MEASURING))
    return sorted(name for name in (listing or "").split("\0") if name)


class BadMachine(ValueError):
    """A text that cannot be a machine's name; the message says what can."""


def as_machine(text: str) -> str:
    """The text, if it can name a machine. Raises BadMachine."""
    if not MACHINE.fullmatch(text) or text == ALL:
        raise BadMachine(
            f"{text!r} is no name of a machine: it takes up to {LONGEST} letters, digits, '_', '-' and '.', begins with none "
            f"of the last two, and is not {ALL!r}"
        )
    return text


def machine_name() -> str:
    """FRAMEBENCH_MACHINE, or the host's name as asv uses it. Raises BadMachine."""
    return as_machine(os.environ.get("FRAMEBENCH_MACHINE") or platform.node())


@functools.cache
def hardware() -> dict[str, Any]:
    """Processor, cores, memory, kernel; no address and no user name."""
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        **_huge_pages(),
        **({"bfloat16": sorted(instructions)} if (instructions := bfloat16_instructions()) is not None else {}),
    }


def fingerprint(hardware: dict[str, Any]) -> str:
    """Of a record's `hardware`: equal for machines between which nothing that numbers rest on differs, whatever they are called
    and however their systems were updated. Memory counts in whole GiB, since firmware keeps some of it to itself."""
    of = ("cpu", "cores", "logical_cores", "gpus", "bfloat16", "transparent_huge_pages")
    told = {name: hardware.get(name) for name in of} | {
        "memory_gib": round((hardware.get("memory_bytes") or 0) / 2**30),
        "architecture": str(hardware.get("system", "")).rpartition(" ")[2],
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]


def bfloat16_instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str] | None:
    """Those that the processor has, or its host lets it have, for products in bfloat16; None where it does not tell."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return None
    lines = (line.partition(":") for line in text.splitlines())
    flags = next((told.split() for name, _, told in lines if name.strip() in ("flags", "Features")), None)
    return None if flags is None else BFLOAT16.intersection(flags)


def _huge_pages(setting: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled")) -> dict[str, str]:
    """Whether the kernel backs memory by huge pages unasked, which moves resident memory and time; `[...]` marks the choice."""
    chosen = re.search(r"\[(\w+)\]", setting.read_text()) if setting.exists() else None
    return {"transparent_huge_pages": chosen[1]} if chosen else {}


def _cpu_model() -> str:
    """From /proc/cpuinfo: platform.processor() is empty on Linux."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        fields = dict(line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line)
        by_name = {key.strip(): value.strip() for key, value in fields.items()}
        numbers = f"family {by_name['cpu family']} model {by_name['model']}" if "cpu family" in by_name else ""
        return f"{by_name.get('model name', platform.machine())} ({numbers})" if numbers else platform.machine()
    return platform.processor() or platform.machine()


def command() -> str:
    """What was typed, without the folders of whoever typed it, and not hundreds of cases; asv's benchmark processes are told
    it."""
    program = Path(sys.argv[0]).name.replace("__main__.py", "framebench")
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return os.environ.get("FRAMEBENCH_COMMAND") or shortened([program, *words])


def shortened(words: list[str]) -> str:
    """As a shell takes it; of many words the first, and how many more there were."""
    left = f" ... ({len(words) - MOST_WORDS} more)" if len(words) > MOST_WORDS else ""
    return shlex.join(words[:MOST_WORDS]) + left
