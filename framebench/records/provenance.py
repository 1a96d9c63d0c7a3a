"""Describe where and how a number came about: code, machine, command."""

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
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = (PACKAGE.parent / "asv.conf.json").exists()  # else it was installed
# below it lie results, and in a checkout the documents
ROOT = PACKAGE.parent if CHECKOUT else Path.cwd()
# The results of the project: an installed copy has them, for folders without any.
PUBLISHED = ROOT / "results" if CHECKOUT else PACKAGE / "results"
# What commands read that measure nothing. Predictions and the reader's own models alone, which lie
# in `results/` too, do not replace the published records.
READABLE = ROOT / "results" if (ROOT / "results" / "records").is_dir() else PUBLISHED
# letters of a machine's name, which becomes a folder's: so it has no strokes, and does not begin
# with a dot
LONGEST_MACHINE_NAME = 100  # characters
MACHINE = re.compile(rf"\w[\w.-]{{0,{LONGEST_MACHINE_NAME - 1}}}")
ALL = "all"  # the value of `--machine` for every machine, so no machine can have this name
BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}  # as x86 and ARM processors name such instructions
MEASURING = ("framebench", "models", "benchmarks")  # the packages that a measurement imports
# What git is asked about: measurements write the rest, and what they have written changes none.
CODE = (".", ":!results", ":!studies/*/data/*")
# Variables by which git uses another repository than the folder's. It sets them for its hooks, and
# a hook may start framebench.
REPOSITORY_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
# Where the files lie whose hash stands for a commit. Installed, all are in the package.
CODE_FOLDERS = (PACKAGE, ROOT / "models", ROOT / "benchmarks") if CHECKOUT else (PACKAGE,)
NO_CODE = ("__pycache__", "results")  # folders below these whose files change no measurement
MOST_WORDS = 12  # of the command that a record keeps


def repeat_results(results: Path) -> str:
    """Return the option that a suggested command needs to use this results folder.

    An example is ` --results mine`. The text is empty for the folder that commands use by default.
    """
    if results in (READABLE, ROOT / "results"):
        return ""
    return f" --results {shlex.quote(str(results))}"


def query_git(*arguments: str) -> str | None:
    """Return the output of `git` with these arguments in the project, or None if it fails.

    Git is not started, and None is returned, in two cases. An installed package or a folder without
    `.git` may lie inside another project, whose commit would be returned. Where $FRAMEBENCH_COMMIT
    is set, `.git` may be that of an older copy.
    """
    has_repository = CHECKOUT and (ROOT / ".git").exists()
    if not has_repository or "FRAMEBENCH_COMMIT" in os.environ:
        return None
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=ROOT,
            env=drop_repository(os.environ),
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def drop_repository(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those by which git takes another folder's repository."""
    return {name: value for name, value in variables.items() if name not in REPOSITORY_VARIABLES}


def find_commit() -> str | None:
    """Return the commit of the code, or else $FRAMEBENCH_COMMIT."""
    return query_git("rev-parse", "HEAD") or os.environ.get("FRAMEBENCH_COMMIT")


def find_code() -> str:
    """Return the commit of the code, or without a commit a hash of its files.

    So a record says which code measured also without git, or where git refuses another user's
    repository.
    """
    return find_commit() or hash_files()


def hash_files(folders: Sequence[Path] = CODE_FOLDERS) -> str:
    """Return `files-` and a hash of the names and contents of all files in these folders.

    By default they are what a measurement may read: modules, references, requirements.
    """
    digest = hashlib.sha256()
    for folder in folders:
        for where, inner, names in os.walk(folder):
            inner[:] = sorted(name for name in inner if name not in NO_CODE)
            for name in sorted(names):
                file = Path(where, name)
                contents = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{file.relative_to(folder.parent)}\0{contents}\n".encode())
    return f"files-{digest.hexdigest()[:40]}"


def name_code() -> str:
    """Return a name of the measuring code: the commit, and a hash of uncommitted changes.

    Results do not count. Without a commit it is a hash of the files, and of an installed copy the
    version too.
    """
    if not CHECKOUT:
        return f"framebench {version('framebench')} {find_code()}"
    commit = find_commit()
    if commit is None:
        return hash_files()
    changes = (query_git("diff", "HEAD", "--", *CODE) or "").encode()
    for name in _list_new_modules():
        changes += name.encode() + (ROOT / name).read_bytes()
    if not changes:
        return commit
    return f"{commit}+{hashlib.sha256(changes).hexdigest()[:10]}"


def is_dirty() -> bool | None:
    """Return whether the code differs from the commit, or None without a repository.

    Results and data do not count.
    """
    changes = query_git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    return None if changes is None else bool(changes or _list_new_modules())


def _list_new_modules() -> list[str]:
    """Return the modules that a measurement could import and git does not track yet.

    What git ignores stays ignored.
    """
    patterns = [f"{package}/*.py" for package in MEASURING]
    patterns.append("framebench/strategies/*.toml")
    listing = query_git("ls-files", "--others", "--exclude-standard", "-z", "--", *patterns)
    return sorted(name for name in (listing or "").split("\0") if name)


class BadMachine(ValueError):
    """A text that cannot be a machine's name; the message says what can."""


def check_machine(text: str) -> str:
    """Return the text if it can name a machine. Raises BadMachine."""
    if not MACHINE.fullmatch(text) or text == ALL:
        raise BadMachine(
            f"{text!r} is no name of a machine: it takes up to {LONGEST_MACHINE_NAME} letters, "
            f"digits, '_', '-' and '.', begins with none of the last two, and is not {ALL!r}"
        )
    return text


def read_machine_name() -> str:
    """Return $FRAMEBENCH_MACHINE, or the host's name as asv uses it. Raises BadMachine."""
    return check_machine(os.environ.get("FRAMEBENCH_MACHINE") or platform.node())


@functools.cache
def describe_hardware() -> dict[str, Any]:
    """Return processor, cores, memory and kernel; no address and no user name."""
    hardware: dict[str, Any] = {
        "cpu": _read_cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        **_read_huge_pages(),
    }
    instructions = list_bfloat16_instructions()
    if instructions is not None:
        hardware["bfloat16"] = sorted(instructions)
    return hardware


def hash_hardware(hardware: dict[str, Any]) -> str:
    """Return a digest of a record's `hardware`.

    The digest is equal for machines between which nothing that numbers rest on differs, whatever
    they are called and however their systems were updated. Memory counts in whole GiB, since
    firmware keeps some of it to itself.
    """
    names = ("cpu", "cores", "logical_cores", "gpus", "bfloat16", "transparent_huge_pages")
    facts = {name: hardware.get(name) for name in names}
    memory_bytes = hardware.get("memory_bytes") or 0
    facts["memory_gib"] = round(memory_bytes / 2**30)
    # such as `x86_64`, the last word of `Linux 6.1.0 x86_64`
    facts["architecture"] = str(hardware.get("system", "")).rpartition(" ")[2]
    text = json.dumps(facts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def list_bfloat16_instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str] | None:
    """Return the instructions for matmuls in bfloat16 that the processor, or its host, offers.

    Returns None if it does not tell.
    """
    for line in cpuinfo.read_text().splitlines():
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):  # on x86, on ARM
            return BFLOAT16.intersection(flags.split())
    return None


def _read_huge_pages() -> dict[str, str]:
    """Return when the kernel backs memory by huge pages, or nothing if it has no such setting.

    The setting changes resident memory and time.
    """
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    # the text is, for instance, `always [madvise] never`
    chosen = re.search(r"\[(\w+)\]", setting.read_text()) if setting.exists() else None
    return {"transparent_huge_pages": chosen[1]} if chosen else {}


def _read_cpu_model() -> str:
    """Return the processor's name, family and model.

    All three are from /proc/cpuinfo, since platform.processor() is empty on Linux.
    """
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    if "cpu family" not in fields:
        return platform.machine()
    name = fields.get("model name", platform.machine())
    return f"{name} (family {fields['cpu family']} model {fields['model']})"


def describe_command() -> str:
    """Return the command that was typed, without the user's folders, and shortened.

    asv's benchmark processes get it by $FRAMEBENCH_COMMAND.
    """
    from_asv = os.environ.get("FRAMEBENCH_COMMAND")
    if from_asv:
        return from_asv
    program = Path(sys.argv[0]).name.replace("__main__.py", "framebench")
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return shorten([program, *words])


def shorten(words: list[str]) -> str:
    """Return the words as a shell takes them; of many the first, and how many more there were."""
    text = shlex.join(words[:MOST_WORDS])
    more = len(words) - MOST_WORDS
    return f"{text} ... ({more} more)" if more > 0 else text
