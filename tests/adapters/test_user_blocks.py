"""The modules that repeat in a model are found, on each level and on the outermost one."""

from __future__ import annotations

from framebench.adapters.user_blocks import ModuleAccess, join_levels, list_levels


class Part:
    """A module with one weight and with modules in it."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts


class Attention(Part):
    pass


class EncoderLayer(Part):
    pass


class DecoderLayer(Part):
    pass


def list_modules(module: Part) -> list[Part]:
    modules = [module]
    for part in module.parts:
        modules += list_modules(part)
    return modules


ACCESS = ModuleAccess(
    modules=list_modules, size=lambda module: len(list_modules(module)), containers=()
)


def make_attention() -> Attention:
    return Attention(Part())


def make_encoder() -> list[Part]:
    return [EncoderLayer(make_attention()) for _ in range(2)]


def make_decoder() -> list[Part]:
    return [DecoderLayer(make_attention(), make_attention()) for _ in range(3)]


def test_layers_of_encoder_and_decoder_are_a_level_together():
    encoder, decoder = make_encoder(), make_decoder()
    model = Part(*encoder, *decoder)
    levels = list_levels(model, ACCESS)
    sizes = {type(level[0]): len(level) for level in levels}
    assert sizes == {EncoderLayer: 2, DecoderLayer: 3, Attention: 2 + 2 * 3}
    assert join_levels(levels, ACCESS) == [*encoder, *decoder]


def test_outermost_modules_of_one_class_are_no_further_level():
    levels = list_levels(Part(*make_encoder()), ACCESS)
    assert len(levels) == 2
    assert join_levels(levels, ACCESS) == []
