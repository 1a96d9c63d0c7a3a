"""The policy of a page allows the theme's scripts, and no other."""

from __future__ import annotations

import re

import pytest

from framebench.publish.site.policy import add_policy, hash_script, list_scripts

THEME = "document.documentElement.dataset.mode = 1;"
PAGE_NAME_SCRIPT = "DOCUMENTATION_OPTIONS.pagename = 'machines/lab/index';"


def make_page(script: str) -> str:
    allowed = f"<script>{THEME}</script><script>{PAGE_NAME_SCRIPT}</script>"
    return f"<html><head>{allowed}</head>{script}</html>"


def read_policy(page: str) -> str:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    return str(policy)


def test_scripts_of_the_theme_and_of_the_pages_name_are_allowed():
    policy = read_policy(add_policy(make_page(""), {THEME}))

    assert hash_script(THEME) in policy
    assert hash_script(PAGE_NAME_SCRIPT) in policy


@pytest.mark.parametrize(
    "script", ["evil()", f"{PAGE_NAME_SCRIPT}evil()", "DOCUMENTATION_OPTIONS.pagename = '';x='';"]
)
def test_other_scripts_are_not_allowed(script):
    page = make_page(f"<script>{script}</script>")

    policy = read_policy(add_policy(page, {THEME}))

    assert script in list_scripts(page)
    assert hash_script(script) not in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
