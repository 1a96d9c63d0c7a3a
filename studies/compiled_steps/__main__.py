"""Show predicted peaks of compiled steps next to measured ones, or predict them:

`python -m studies.compiled_steps [predict]`.
"""

from __future__ import annotations

from pathlib import Path

from framebench.analysis.rendering import Table, format_mib
from studies.predicted_rows import RowStudy, make_app

STUDY = RowStudy(
    folder=Path(__file__).parent,
    program="studies.compiled_steps.torch_vit",
    arguments=("name", "device"),
    predicted="compiled_bytes",
)


def tabulate() -> Table:
    """Return the table of all rows."""
    predictions = STUDY.read_predictions()
    cells = []
    for row in STUDY.read_rows():
        measured = int(row["measured_bytes"])
        predicted = predictions.get(row["name"], {})
        compiled = predicted.get("compiled_bytes")
        error = "-" if compiled is None else f"{compiled / measured - 1:+.1%}"
        cells.append(
            (
                row["optimizer"],
                row["gpu"],
                format_mib(measured),
                format_mib(compiled),
                error,
                format_mib(predicted.get("eager_bytes")),
            )
        )
    return Table.of_text(
        "Compiled steps",
        "ViT-H/14, batch 8, bfloat16 autocast, `torch.compile`: most bytes in use, in MiB. error: "
        "predicted / measured - 1. eager: predicted for the same step without torch.compile.",
        ("optimizer", "GPU", "measured", "predicted", "error", "eager"),
        cells,
        left=2,
    )


if __name__ == "__main__":
    make_app(STUDY, tabulate)()
