"""Names of pages and anchors, made from whatever records contain."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

LONGEST = 100  # characters of a name; file systems take 255 bytes


def slug(text: str) -> str:
    """A name that is safe as a file, as an anchor and in an address; different texts get different names.

    `transformer/torch/train/fp32/b4/cpu` becomes `transformer.torch.train.fp32.b4.cpu`. Whatever else had to be changed is told
    apart by a hash, capitals too, since some file systems take them for small letters.
    """
    plain = text.replace("/", ".")
    safe = re.sub(r"\.{2,}", ".", re.sub(r"[^a-z0-9._-]+", "-", plain.lower())).strip(".-")[:LONGEST]
    if safe and safe == plain and "." not in text:
        return safe
    return f"{safe or 'x'}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


def machine_folder(machine: str) -> str:
    return f"machines/{slug(machine)}"


def case_page(machine: str, case: str) -> str:
    return f"{machine_folder(machine)}/cases/{slug(case)}.html"


def anchors(titles: Iterable[str]) -> list[str]:
    """An anchor for each title of a page; titles that are the same get numbers."""
    seen: dict[str, int] = {}
    unique_slugs = []
    for name in map(slug, titles):
        seen[name] = seen.get(name, 0) + 1
        unique_slugs.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return unique_slugs
