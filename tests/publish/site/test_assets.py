"""A module of a package becomes a script, which browsers load from files."""

import pytest

from framebench.publish.site.assets import UnknownBundle, convert_module


def test_the_default_export_becomes_a_global_variable():
    script = convert_module("var a=1,b=2;export{a as other,b as default};", "Name")

    assert "window.Name = b;" in script
    assert "export" not in script


def test_a_module_without_default_export_is_refused():
    with pytest.raises(UnknownBundle, match="itables"):
        convert_module("var a=1;export{a as other};", "Name")
