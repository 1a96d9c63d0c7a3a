"""Cases that several processes share: measured, predicted, and advised on."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Cases that several processes share: measured, predicted, and advised on.",
    {
        "report": "table:of_machine",
        "documents": "sharding_tables:of_results",
        "case_over_ranks": "cases:over_ranks",
        "measure_over_ranks": "measure:measure",
        "predict_rank": "command:predict_rank",
        "advise_over_ranks": "command:advise",
    },
    workers=("worker", "predicted_worker"),
    records={"predicted": "prediction:Prediction"},
)
