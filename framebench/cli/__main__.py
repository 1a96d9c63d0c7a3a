"""The program `framebench`, which `python -m framebench.cli` starts too."""

from __future__ import annotations

import importlib
import inspect
import io
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from framebench.engine.interrupts import interrupt_on_ending_signals
from framebench.engine.shortages import describe_error

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
INTERRUPTED = 130  # exit code: 128 and the number of SIGINT, as shells have it


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
    if isinstance(sys.stdout, io.TextIOWrapper):
        # what the locale has no letter for, such as `×` in ASCII, is printed as `\xd7`
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with interrupt_on_ending_signals():
            run_command_line()
    except KeyboardInterrupt:
        print("framebench: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except MemoryError:
        print("framebench: memory ran out for framebench itself", file=sys.stderr)
        sys.exit(1)


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

    warnings.simplefilter("once")  # a command may read a file twice
    warnings.showwarning = print_warning
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


def print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as the other messages are printed; it replaces `warnings.showwarning`."""
    from framebench.cli.shared import say

    say(f"warning: {message}")


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
