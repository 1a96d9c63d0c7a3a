"""Show predicted peaks of one rank next to measured ones, or predict them:

`python -m studies.sharded_steps [predict]`.
"""

from __future__ import annotations

from pathlib import Path

from framebench.analysis.rendering import Table, format_mib
from studies.predicted_rows import RowStudy, make_app

STUDY = RowStudy(
    folder=Path(__file__).parent,
    program="studies.sharded_steps.torch_llama",
    arguments=("ranks", "batch", "length", "recomputed"),
    predicted="reserved_bytes",
)


def tabulate() -> Table:
    """Return the table of all rows."""
    predictions = STUDY.read_predictions()
    cells = []
    for row in STUDY.read_rows():
        measured = int(row["measured_bytes"])
        predicted = predictions.get(row["name"], {}).get("reserved_bytes")
        error = "-" if predicted is None else f"{predicted / measured - 1:+.1%}"
        shape = f"{row['batch']} x {row['length']}"
        cells.append(
            (
                row["name"],
                row["ranks"],
                shape,
                row["recomputed"],
                format_mib(measured),
                format_mib(predicted),
                error,
            )
        )
    return Table.of_text(
        "One rank of Llama 3 8B under FSDP2",
        "Peaks that PyTorch's allocator reserved on one GPU, in MiB. error: predicted / measured "
        "- 1. batch: of one rank, in tokens.",
        ("row", "ranks", "batch", "recomputed", "measured", "predicted", "error"),
        cells,
        left=1,
    )


if __name__ == "__main__":
    make_app(STUDY, tabulate)()
