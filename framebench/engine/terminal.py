"""Keep other people's texts from moving the cursor, or from taking more than their line."""

from __future__ import annotations

import re

# Characters that move the cursor, that change colours, titles or the direction of reading, or that
# no terminal can show. Those in other people's files may not reach the terminal.
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_control(text: str) -> str:
    r"""Return the text with control characters as `\u001b`, which is also what JSON writes."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def make_line(text: str) -> str:
    """Return the text in one line: exceptions of frameworks have several, in colours."""
    return escape_control(" ".join(text.split()))
