"""Which instructions for bfloat16 a processor has, as /proc/cpuinfo tells it."""

import pytest

from framebench.records.provenance import describe_hardware, list_bfloat16_instructions


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            "model name\t: x\nflags\t\t: fpu avx512_bf16 amx_bf16 amx_tile\n",
            {"avx512_bf16", "amx_bf16"},
        ),
        ("Features\t: fp asimd bf16\n", {"bf16"}),
        ("flags\t\t: fpu avx512f\n", set()),
        ("processor\t: 0\n", None),
    ],
)
def test_bfloat16_instructions_are_read_from_the_flags(content, found, tmp_path):
    (tmp_path / "cpuinfo").write_text(content)
    assert list_bfloat16_instructions(tmp_path / "cpuinfo") == found


def test_provenance_names_the_bfloat16_instructions():
    here = list_bfloat16_instructions()
    assert describe_hardware().get("bfloat16") == (None if here is None else sorted(here))
