"""A module of a package becomes a script, which browsers load from files."""

from framebench.publish.site.assets import convert_module


def test_the_default_export_becomes_a_global_variable():
    script = convert_module("var a=1,b=2;export{a as other,b as default};")

    assert "window.DataTable = b;" in script
    assert "export" not in script
