"""Parameters of each model of measured rows, and bytes in use between steps by where gradients are
dropped. Printed as JSON.
"""

from __future__ import annotations

import json

from framebench.devices import catalog
from framebench.devices.simulation import torch_simulate
from studies.published_peaks import torch_litgpt, torch_models, torch_programs
from studies.published_peaks.programs import Program

CARD = catalog.find("rtx3060-12gb")


def between(position: str, model: str = "mobilenet_v3_small") -> int:
    program = Program("images", model, CARD.name, 2, 32, "SGD", "reserved", position)  # type: ignore[arg-type]
    return torch_simulate.simulate(torch_programs.made(program), CARD, steps=3).between_steps


def kept_by_names(model: str) -> dict[str, int]:
    """Logits of GPT-2 are alive when the next step begins, and its keys and values."""
    program = Program("text", model, CARD.name, 2, 16, "SGD", "reserved", "end")
    peaks = torch_simulate.simulate(torch_programs.made(program), CARD, steps=3)
    return {"between_steps": peaks.between_steps, "weights": peaks.kinds["weights"]}


if __name__ == "__main__":
    found = {
        "parameters": {
            name: torch_models.parameters(torch_models.build(name))
            for name in (*torch_models.IMAGES, *torch_models.CONFIGURATIONS, *torch_litgpt.SHAPES)
        },
        "between": {
            position: between(position) for position in ("start", "before backward", "end")
        },
        "kept": {model: kept_by_names(model) for model in ("distilgpt2", "t5-small")},
    }
    print(json.dumps(found))
