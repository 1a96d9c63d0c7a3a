"""What `framebench run` is asked for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from framebench.engine.runner import USUAL, Options
from framebench.engine.session import Session


@dataclass(frozen=True)
class Asked:
    """What `framebench run` is asked for, as its options say; results do not count."""

    selectors: tuple[str, ...]
    profile: str | None = None
    options: Options = USUAL
    env: str | None = None
    blocks: int = 1
    block: int | None = None  # of these blocks the one of this number alone
    beside_torch: bool = False  # PyTorch's baseline in each block, though none of its cases is named

    @property
    def named(self) -> str:
        """What tells the session from others. Options too: what was measured with other threads or under a limit does not stand
        for what is asked for now."""
        of = f"block {self.block}" if self.block is not None else f"{self.blocks} blocks"
        parts = [*self.selectors, self.profile or "", *([f"--env {self.env}"] if self.env else []), of]
        return " ".join([*parts, *(["beside torch"] if self.beside_torch else []), str(self.options)])

    def arguments(self) -> list[str]:
        """The command line without the program and the results folder; what has its default is left out."""
        named = {
            "profile": self.profile,
            "env": self.env,
            "block": self.block,
            "blocks": self.blocks if self.blocks > 1 else None,
        }
        changed = {
            f.name: getattr(self.options, f.name)
            for f in fields(Options)
            if f.name != "profile" and getattr(self.options, f.name) != f.default
        }
        if limit := changed.get("memory_limit"):
            changed["memory_limit"] = f"{limit}B"
        names = {"time_limit_s": "time-limit"}
        options = {
            names.get(name, name.replace("_", "-")): value for name, value in (named | changed).items() if value is not None
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return ["run", *self.selectors, *words, *(["--beside-torch"] if self.beside_torch else [])]

    def mark(self, code: str | None) -> str:
        """The file that says, in a results folder, that a run of this by this code came to its end."""
        return Session("", code, self.named).path(Path(), "done").name
