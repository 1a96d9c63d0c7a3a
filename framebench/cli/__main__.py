"""The program `framebench`, which `python -m framebench.cli` starts too."""

from __future__ import annotations

import importlib
import inspect
import io
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framebench.engine.interrupts import interrupt_on_ending_signals
from framebench.engine.shortages import (
    check_threads,
    describe_error,
    describe_shortage,
    has_small_address_space,
)

if TYPE_CHECKING:
    import typer

# By command the module that adds it to the application when it is imported, then those that add
# subcommands. They are imported when they are asked for. The help lists the commands in this order.
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("framebench.cli.run",),
    "list": ("framebench.cli.reading",),
    "show": ("framebench.cli.reading",),
    "answer": ("framebench.cli.reading",),
    "report": ("framebench.cli.report",),
    "setup": ("framebench.cli.upkeep",),
    "dev": (
        "framebench.cli.upkeep",
        "framebench.devices.plans.command",
        "framebench.devices.releases.command",
        "framebench.references.command",
    ),
    "advise": ("framebench.budget.advise.command",),
    "claims": ("framebench.claims.command",),
    "plan": ("framebench.cluster.command",),
    "collect": ("framebench.cluster.command",),
    "check-results": ("framebench.cluster.command",),
    "compare": ("framebench.compare.command",),
    "devices": ("framebench.devices.command",),
    "doctor": ("framebench.doctor.command",),
    "explain": ("framebench.explain.command",),
    "grow": ("framebench.growth.command",),
    "max-batch": ("framebench.budget.max_batch.command",),
    "evaluate": ("framebench.budget.max_batch.command",),
    "predict": ("framebench.budget.predict.command",),
    "try": ("framebench.user_model.command",),
    "versions": ("framebench.versions.command",),
}
# how functions of commands name a parameter that takes cases
CASE_PARAMETERS = ("selectors", "selector", "case", "case_or_file")
LEAST_LIKENESS = 0.7  # of an option's name to what was typed, between 0 and 1
EXAMPLE_CASE = "transformer/torch/train/fp32/b4/cpu"
# the largest libraries that commands load, and room for records
LOADING = "import pandas, pydantic, rich, scipy.special, typer; bytearray(2**26)"
INTERRUPTED = 130  # exit code: 128 and the number of SIGINT, as shells have it
LOADING_S = 60.0  # a limit far above what loading takes


def load_commands(arguments: Sequence[str]) -> None:
    """Import the command that these arguments name, with its subcommands.

    Where they name none, for the help or by mistake, all commands are imported.
    """
    words = [argument for argument in arguments if not argument.startswith("-")]
    modules = [modules[0] for modules in COMMANDS.values()]
    if words and words[0] in COMMANDS:
        modules = list(COMMANDS[words[0]])
    for module in modules:
        importlib.import_module(module)


def main() -> None:
    """Run the command line; a user's mistake ends in a sentence, not in a traceback.

    SIGTERM, and SIGHUP unless nohup ignores it, end a command as Ctrl-C does, so that what it has
    started ends too, and its temporary folders go. The imports are here, since they take a second
    in which Ctrl-C may come.
    """
    open_missing_streams()
    try:
        with interrupt_on_ending_signals():
            check_address_space()
            check_threads()
            run_command_line()
    except KeyboardInterrupt:
        print("framebench: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (MemoryError, ImportError, RuntimeError) as error:
        reason = describe_shortage(error)
        if not reason:
            raise
        print(f"framebench: {reason}", file=sys.stderr)
        sys.exit(1)


def check_address_space() -> None:
    """End the command if the libraries that it needs cannot be loaded under the limit on memory.

    NumPy and SciPy load OpenBLAS, which may wait for ever if it gets too little address space. So a
    subprocess, which can be killed, loads the libraries first, unless the limit is large.
    """
    if not has_small_address_space():
        return
    try:
        code = subprocess.run(
            [sys.executable, "-P", "-c", LOADING],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LOADING_S,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):  # it could not be started, or it hangs
        code = 1
    if code:
        limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
        size = f"{limit_bytes / 2**20:,.0f} MiB"
        reason = (
            f"a limit on address space (ulimit -v) of {size} is too small to load pandas and SciPy"
        )
        print(f"framebench: {reason}", file=sys.stderr)
        sys.exit(1)


def open_missing_streams() -> None:
    r"""Open /dev/null for each standard stream that was closed, as by `>&-`.

    Otherwise the next file that is opened would get the stream's number, and be written to. What
    the locale has no letter for, such as `×` in ASCII, is printed as `\xd7`.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest number that is free
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open("r" if name == "stdin" else "w")  # noqa: SIM115 - for good
            setattr(sys, name, stream)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def run_command_line() -> None:
    """Run the command that the arguments name, and end with its exit code."""
    import typer

    from framebench.cli.shared import app, fail
    from framebench.engine.environments import ModuleTimeout, SetupError
    from framebench.engine.session import Busy
    from framebench.models.spec import UnknownName
    from framebench.records.provenance import BadMachine
    from framebench.records.store import BadRecord
    from framebench.suite.case import UnknownCase
    from framebench.suite.user_file import Fault

    warnings.showwarning = make_warning_printer()
    option = find_empty_option(sys.argv[1:])
    if option:
        fail(f"after {option} comes '', which is no value: leave both out, or say what", 2)
    try:
        load_commands(sys.argv[1:])
        command = typer.main.get_command(app)
        join_help_lines(command)
        code = command(standalone_mode=False, prog_name="framebench")
    except typer.TyperException as error:
        fail(describe_mistake(error), 2)
    except (typer.Abort, KeyboardInterrupt):
        fail("interrupted", INTERRUPTED)
    except ModuleTimeout as error:
        fail(str(error), 1)
    except (UnknownCase, UnknownName, SetupError, Busy, BadMachine, Fault) as error:
        fail(str(error), 2)
    except BadRecord as error:
        fail(str(error), 1)
    except OSError as error:
        fail(describe_error(error), 1)
    if code == INTERRUPTED:  # what typer returns after Ctrl-C in a command, and says nothing
        fail("interrupted", INTERRUPTED)
    sys.exit(code)


def join_help_lines(command: Any) -> None:
    """Join the lines of each paragraph of a command's help, and of its subcommands'.

    typer would keep the line breaks of the source. Lists and examples, whose lines are indented or
    begin with a dash, stay unchanged.
    """
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    for index, paragraph in enumerate(paragraphs):
        lines = paragraph.splitlines()
        if not any(line.startswith((" ", "-", "\b")) for line in lines):
            paragraphs[index] = " ".join(lines)
    command.help = "\n\n".join(paragraphs)
    for subcommand in getattr(command, "commands", {}).values():
        join_help_lines(subcommand)


def find_empty_option(arguments: Sequence[str]) -> str | None:
    """Return the first option whose value is empty or blank, or None if every value is given.

    An empty value usually comes from an unset variable of a script. It would mean the current
    folder, or the default. Arguments after `--` are those of a user's own script, and may be empty.
    """
    option = ""  # the last option; the next word may be its value
    for argument in arguments:
        if argument == "--":
            return None
        if option and not argument.strip():
            return option
        option = argument if argument.startswith("-") else ""
        name, equals, value = argument.partition("=")
        if option.startswith("--") and equals:
            if not value.strip():
                return name
            option = ""  # it has its value
    return None


def make_warning_printer() -> Callable[..., None]:
    """Return a function that replaces `warnings.showwarning`, and prints each text only once.

    A command may read a file twice, and would otherwise repeat the warnings about it.
    """
    from framebench.cli.shared import say

    printed = set()

    def print_warning(message: Warning | str, *_: object, **__: object) -> None:
        text = f"warning: {message}"
        if text not in printed:
            printed.add(text)
            say(text)

    return print_warning


def describe_mistake(error: typer.TyperException) -> str:
    """Return the mistake on the command line, and the command that prints the help.

    Ends the command if there is no message: then the help was shown in its place.
    """
    option: str | None = getattr(error, "option_name", None)
    context: typer.Context | None = getattr(error, "ctx", None)
    message = error.format_message().strip().rstrip(".")
    if option and context and hasattr(error, "possibilities"):
        message = f"no such option: {option}{suggest_option(option, context)}"
    if not message:
        sys.exit(2)
    command = context.command_path if context else "framebench"
    return f"{message}; `{command} --help` has all of it"


def suggest_option(unknown: str, context: typer.Context) -> str:
    """Return the end of a sentence on what an unknown option could mean, or "".

    It is an option with nearly the same name, a field of the cases that the command takes, or an
    option of the script that `grow` runs.
    """
    from framebench.suite.selectors import PARTS

    name = unknown.lstrip("-")
    takes_cases = False
    names = []
    for parameter in context.command.params:
        takes_cases = takes_cases or parameter.name in CASE_PARAMETERS
        names += [option.lstrip("-") for option in parameter.opts if option.startswith("--")]
    near = get_close_matches(name, names, 1, cutoff=LEAST_LIKENESS)
    hint = ""
    if near:
        hint = f" (did you mean --{near[0]}?)"
    elif takes_cases and name in PARTS:
        hint = f"; the {name} is a part of a case: {'/'.join(PARTS)}, as in {EXAMPLE_CASE}"
    if context.command.name == "grow":
        hint += "; put -- before the arguments of your own script"
    return hint


if __name__ == "__main__":
    main()
