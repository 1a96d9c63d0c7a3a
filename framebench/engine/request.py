"""Define the request that `framebench run` carries out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from framebench.engine.runner import DEFAULT_OPTIONS, Options
from framebench.engine.session import Session


@dataclass(frozen=True)
class RunRequest:
    """Hold the options of `framebench run`, without the results folder."""

    selectors: tuple[str, ...]
    profile: str | None = None
    options: Options = DEFAULT_OPTIONS
    env: str | None = None
    blocks: int = 1
    block: int | None = None  # if given, only the block of this number is measured
    # whether PyTorch's baseline is in each block, though none of its cases is named
    beside_torch: bool = False

    @property
    def session_name(self) -> str:
        """Return the text that identifies the session of this request: its selectors and options.

        The options are part of it, since a session with other threads or under another limit must
        not be resumed.
        """
        parts = [*self.selectors, self.profile or ""]
        if self.env:
            parts.append(f"--env {self.env}")
        parts.append(f"{self.blocks} blocks" if self.block is None else f"block {self.block}")
        if self.beside_torch:
            parts.append("beside torch")
        return " ".join([*parts, str(self.options)])

    def make_arguments(self) -> list[str]:
        """Return the command line, without program and results folder.

        Options that have their default are left out.
        """
        values = {
            "profile": self.profile,
            "env": self.env,
            "block": self.block,
            "blocks": self.blocks if self.blocks > 1 else None,
        }
        words = ["run", *self.selectors]
        for name, value in values.items():
            if value is not None:
                words += [f"--{name}", str(value)]
        for field in fields(Options):
            value = getattr(self.options, field.name)
            if value is None or value == field.default:
                continue
            if field.name == "profile":  # among `values`
                continue
            words += format_option(field.name, value)
        if self.beside_torch:
            words.append("--beside-torch")
        return words

    def mark(self, code: str | None) -> str:
        """Return the name of the file that marks this request as done by this code."""
        return Session("", code, self.session_name).find_file(Path(), "done").name


def format_option(name: str, value: object) -> list[str]:
    """Return an option of the command line by its name in `Options`."""
    if name == "memory_limit":
        return ["--memory-limit", f"{value}B"]
    if name == "time_limit_s":
        return ["--time-limit", str(value)]
    return [f"--{name.replace('_', '-')}", str(value)]
