"""A further page of a machine on the site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Page(NamedTuple):
    """A page of a machine on the site.

    `context` is asked for when the page is written; the front page shows the sentences of `news`
    with a link to it.
    """

    name: str  # of its file, without the ending
    title: str  # in the machine's menu; empty where another page leads to it
    template: str  # below `framebench`
    context: Callable[[], dict[str, Any]]
    news: tuple[str, ...] = ()
