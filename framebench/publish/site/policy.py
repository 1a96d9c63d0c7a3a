"""Give each page a Content-Security-Policy, by which a browser runs only the site's own scripts.

The theme has a few scripts in the page itself. They are allowed by their hashes, which are taken
from pages without any text of a record: a script that a record smuggles into a page has no hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from framebench.suite.sequences import drop_duplicates

SCRIPT = re.compile(r"<script(?:\s+data-cfasync=\"false\")?>(.*?)</script>", re.S)
# the theme says in each page what its name is
PAGE_NAME = re.compile(r"DOCUMENTATION_OPTIONS\.pagename = '[\w./+-]*';")
OF_THE_THEME = ("search.html", "genindex.html")
# styles are the theme's too: its icons bring some along when they are loaded
POLICY = (
    "default-src 'none'; script-src 'self' file: {hashes}; style-src 'self' file: 'unsafe-inline'; "
    "img-src 'self' file: data:; font-src 'self' file: data:; connect-src 'none'; "
    "base-uri 'none'; form-action 'self' file:"
)
HEAD = re.compile(r"<head>")


def add_policies(site: Path) -> None:
    """Write the policy into every page of a site."""
    trusted = set()
    for name in OF_THE_THEME:
        trusted |= set(list_scripts((site / name).read_text(encoding="utf-8")))
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(add_policy(text, trusted), encoding="utf-8")


def add_policy(text: str, trusted: set[str]) -> str:
    """Return a page with a content security policy that allows only its trusted scripts."""
    hashes = []
    for script in list_scripts(text):
        if script in trusted or PAGE_NAME.fullmatch(script):
            hashes.append(f"'{hash_script(script)}'")
    policy = POLICY.format(hashes=" ".join(drop_duplicates(hashes)))
    meta = f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return HEAD.sub(lambda _: meta, text, count=1)


def list_scripts(text: str) -> list[str]:
    """Return the scripts that are written in the page itself."""
    return SCRIPT.findall(text)


def hash_script(script: str) -> str:
    """Return a script's hash as the policy names it."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
