"""The models of the measured rows, by the names that programs.py gives them; weights by shape
alone.

Images: torchvision's own. Text: transformers' own, from the published configurations, written out.
Both as libraries have them: memory is decided by what a module keeps, in which order, and what it
writes over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

# torchvision registers shapes for operators of its own compiled part, which a CPU build of PyTorch
# cannot load: name them first
_OPERATORS = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import transformers  # noqa: E402
from torchvision import models as vision  # noqa: E402
from torchvision.models import mobilenetv3  # noqa: E402

from studies.published_peaks import torch_litgpt, torch_video  # noqa: E402

GPT2 = {"vocab_size": 50257, "n_embd": 768, "n_head": 12, "activation_function": "gelu_new"}
OPT = {
    "vocab_size": 50272,
    "max_position_embeddings": 2048,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_function": "relu",
}
CONFIGURATIONS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: transformers.GPT2Config(n_layer=12, n_positions=1024, **GPT2),
    "distilgpt2": lambda: transformers.GPT2Config(n_layer=6, n_positions=1024, **GPT2),
    "cerebras-gpt-111m": lambda: transformers.GPT2Config(
        n_layer=10,
        n_positions=2048,
        n_inner=3072,
        attn_pdrop=0.0,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        **{**GPT2, "activation_function": "gelu"},
    ),
    "gpt-neo-125m": lambda: transformers.GPTNeoConfig(
        vocab_size=50257,
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        attention_types=[[["global", "local"], 6]],
        max_position_embeddings=2048,
        window_size=256,
        activation_function="gelu_new",
        attention_dropout=0.0,
        embed_dropout=0.0,
        resid_dropout=0.0,
    ),
    "opt-125m": lambda: transformers.OPTConfig(
        hidden_size=768,
        num_hidden_layers=12,
        ffn_dim=3072,
        num_attention_heads=12,
        word_embed_proj_dim=768,
        do_layer_norm_before=True,
        **OPT,
    ),
    "opt-350m": lambda: transformers.OPTConfig(
        hidden_size=1024,
        num_hidden_layers=24,
        ffn_dim=4096,
        num_attention_heads=16,
        word_embed_proj_dim=512,
        do_layer_norm_before=False,
        **OPT,
    ),
    "t5-small": lambda: transformers.T5Config(
        vocab_size=32128,
        d_model=512,
        d_kv=64,
        d_ff=2048,
        num_layers=6,
        num_heads=8,
        dropout_rate=0.1,
        feed_forward_proj="relu",
        decoder_start_token_id=0,
        pad_token_id=0,
    ),
}


def _mobilenet_v3(size: str) -> nn.Module:
    """As xMem's authors make it: the published blocks, ten classes, and a last layer that both
    sizes have.
    """
    blocks, last = mobilenetv3._mobilenet_v3_conf(f"mobilenet_v3_{size}")
    return vision.MobileNetV3(blocks, last, num_classes=10)


IMAGES: dict[str, Callable[[], nn.Module]] = {
    "resnet101": vision.resnet101,
    "resnet152": vision.resnet152,
    "vgg16": vision.vgg16,
    "vgg19": vision.vgg19,
    "mobilenet_v2": vision.mobilenet_v2,
    "mobilenet_v3_small": lambda: _mobilenet_v3("small"),
    "mobilenet_v3_large": lambda: _mobilenet_v3("large"),
    "mnasnet": lambda: vision.MNASNet(alpha=1.0, num_classes=10),
    "convnext_tiny": vision.convnext_tiny,
    "convnext_base": vision.convnext_base,
    "regnet_x_400mf": vision.regnet_x_400mf,
    "regnet_y_400mf": vision.regnet_y_400mf,
}
NEEDS_NUMBERS = ("regnet",)  # compute their widths by tensors


def build(name: str) -> nn.Module:
    """The model in training mode, on the meta device where that is possible. Raises KeyError."""
    make = (
        IMAGES.get(name)
        or torch_video.RECOGNIZERS.get(name)
        or (lambda: torch_litgpt.build(name) if name in torch_litgpt.SHAPES else _of_text(name))
    )
    if name.startswith(NEEDS_NUMBERS):
        return make().train()
    with torch.device("meta"):
        return make().train()


def _of_text(name: str) -> nn.Module:
    config = CONFIGURATIONS[name]()
    auto = (
        transformers.AutoModelForSeq2SeqLM
        if name.startswith("t5")
        else transformers.AutoModelForCausalLM
    )
    model = auto.from_config(config)
    for module in model.modules():
        if getattr(module, "layerdrop", None) == 0.0:
            module.layerdrop = Never()
    return model


class Never:
    """OPT compares a random number with the share of layers to drop, which is 0; without numbers
    the answer must be made up.
    """

    def __gt__(self, other: object) -> bool:
        return False


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
