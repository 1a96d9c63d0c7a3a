"""Which line of the source an instruction of a compiled program comes from, as the program's text tells."""

from __future__ import annotations

import re

from framebench.adapters.jax.hlo import Instruction

LIBRARY = "site-packages"
TABLE = re.compile(r"^(FileNames|FileLocations|StackFrames)\n((?:\d+ .*\n)+)", re.M)
ENTRY = re.compile(r"^(\d+) (.*)$", re.M)


class Sources:
    """The tables of files, places and callers before the instructions. Older releases of XLA write file and line with each
    instruction instead."""

    def __init__(self, text: str, computations: dict[str, list[Instruction]]) -> None:
        self.computations = computations
        tables = {name: dict(ENTRY.findall(rows)) for name, rows in TABLE.findall(text)}
        self.files = {number: name.strip('"') for number, name in tables.get("FileNames", {}).items()}
        self.places = {n: _numbers(row) for n, row in tables.get("FileLocations", {}).items()}
        self.frames = {n: _numbers(row) for n, row in tables.get("StackFrames", {}).items()}
        # the text counts callers from one, or from nought, where one is nobody
        self.shift = self.frames.get("1", {}).get("parent_frame_id", 0)

    def line(self, instruction: Instruction) -> str:
        """Such as `models/transformer/flax_model.py:57`: the innermost that is no library's; of a fusion, of the last operation
        in it that has one. Empty for what the compiler put in."""
        fused = [inner for called in instruction.calls("calls") for inner in self.computations.get(called, [])]
        return next(filter(None, (self._own(each) for each in (instruction, *reversed(fused)))), "")

    def _own(self, instruction: Instruction) -> str:
        if old := re.search(r'source_file="([^"]*)" source_line=(\d+)', instruction.attributes):
            return "" if LIBRARY in old[1] else f"{_short(old[1])}:{old[2]}"
        number = re.search(r"stack_frame_id=(\d+)", instruction.attributes)
        frame = self.frames.get(number[1]) if number else None
        while frame:
            place = self.places.get(str(frame["file_location_id"]), {})
            file = self.files.get(str(place.get("file_name_id")), LIBRARY)
            if LIBRARY not in file:
                return f"{_short(file)}:{place['line']}"
            frame = self.frames.get(str(frame.get("parent_frame_id", 0) - self.shift))
        return ""


def _numbers(row: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", row)}


def _short(file: str) -> str:
    """From the package on; a user's file by its name."""
    inside = file.rpartition("/framebench/")[2]
    return inside if inside != file else file.rpartition("/")[2]
