"""A module of a package becomes a script, which browsers load from files."""

from __future__ import annotations

import pytest

from framebench.publish.site.assets import UnknownBundle, convert_module


def test_the_default_export_becomes_a_global_variable() -> None:
    script = convert_module("var a=1,b=2;export{a as other,b as default};", "Name")

    assert "window.Name = b;" in script
    assert "export" not in script


def test_a_module_without_default_export_is_refused() -> None:
    with pytest.raises(UnknownBundle, match="itables"):
        convert_module("var a=1;export{a as other};", "Name")
