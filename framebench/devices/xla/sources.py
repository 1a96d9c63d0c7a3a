"""Which line of the source an instruction of a compiled program comes from, as the program's text
has it.
"""

from __future__ import annotations

import re

from framebench.adapters.jax.hlo import Instruction

LIBRARY = "site-packages"
TABLE = re.compile(r"^(FileNames|FileLocations|StackFrames)\n((?:\d+ .*\n)+)", re.M)
ENTRY = re.compile(r"^(\d+) (.*)$", re.M)


class Sources:
    """The tables of files, places and callers before the instructions.

    Older releases of XLA write file and line with each instruction instead.
    """

    def __init__(self, text: str, computations: dict[str, list[Instruction]]) -> None:
        self.computations = computations
        tables = {name: dict(ENTRY.findall(rows)) for name, rows in TABLE.findall(text)}
        self.files = {
            number: name.strip('"') for number, name in tables.get("FileNames", {}).items()
        }
        self.places = {
            number: parse_row(row) for number, row in tables.get("FileLocations", {}).items()
        }
        self.frames = {
            number: parse_row(row) for number, row in tables.get("StackFrames", {}).items()
        }
        # the text counts callers from one, or from nought, where one is nobody
        self.shift = self.frames.get("1", {}).get("parent_frame_id", 0)

    def line(self, instruction: Instruction) -> str:
        """Return such as `models/transformer/flax_model.py:57`; empty for what the compiler put in.

        It is the innermost line that is no library's; of a fusion, of the last operation in it that
        has one.
        """
        fused = []
        for called in instruction.list_called("calls"):
            fused += self.computations.get(called, [])
        for candidate in (instruction, *reversed(fused)):
            line = self.line_of_one(candidate)
            if line:
                return line
        return ""

    def line_of_one(self, instruction: Instruction) -> str:
        """Return the line of an instruction itself."""
        attributes = instruction.attributes
        old = re.search(r'source_file="([^"]*)" source_line=(\d+)', attributes)
        if old:
            return "" if LIBRARY in old[1] else f"{shorten(old[1])}:{old[2]}"
        number = re.search(r"stack_frame_id=(\d+)", attributes)
        frame = self.frames.get(number[1]) if number else None
        while frame:
            place = self.places.get(str(frame["file_location_id"]), {})
            file = self.files.get(str(place.get("file_name_id")), LIBRARY)
            if LIBRARY not in file:
                return f"{shorten(file)}:{place['line']}"
            frame = self.frames.get(str(frame.get("parent_frame_id", 0) - self.shift))
        return ""


def parse_row(row: str) -> dict[str, int]:
    """Return the numbers of a row by their names."""
    return {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", row)}


def shorten(file: str) -> str:
    """Return the path from the package on; a user's file by its name."""
    _, package, inside = file.rpartition("/framebench/")
    return inside if package else file.rpartition("/")[2]
