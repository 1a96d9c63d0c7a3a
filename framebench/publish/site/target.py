"""Claim the folder of a site: an earlier site in it is replaced, and nothing else ever is."""

from __future__ import annotations

import shutil
from pathlib import Path

# a file in every folder that a site was written to; no other folder is ever emptied
MARK = ".framebench-site"


class Unbuildable(ValueError):
    """There is nothing to show, or the target holds something else; the message says what to do."""


def claim_folder(target: Path) -> None:
    """Make an empty folder, marked as a site of framebench.

    An earlier site in the folder is removed. Raises Unbuildable if something else is there.
    """
    check_folder(target)
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    (target / MARK).write_text("written by framebench; the next site replaces this folder\n")


def check_folder(target: Path) -> None:
    """Raise Unbuildable if the folder has files in it that are not of a site, or is a link."""
    if target.is_symlink():  # it may lead to a folder that is not the user's
        raise Unbuildable(f"{target} is a link; name the folder that it leads to")
    if not target.exists():
        return
    if target.is_dir() and (not any(target.iterdir()) or (target / MARK).exists()):
        return
    raise Unbuildable(
        f"{target} exists and holds no framebench site; remove it, or name another folder",
    )
