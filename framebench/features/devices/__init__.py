"""What a case needs on a device that is not here: told by the programs that decide it there, without one."""

from framebench.extensions import Feature

FEATURE = Feature(
    "What a case needs on a device that is not here.",
    {
        "documents": "documents:documents",
        "figures": "figure:figures",
        "planned_rows": "tables.frame:load",
        "predict_on_device": "show:predict_on_device",
        "advise_on_device": "fit.advice:advise_on_device",
        "fit_on_device": "fit.advice:fit_on_device",
        "explain_on_device": "show:explain_on_device",
        "report_on_device": "documents:of_named",
        "releases_on_device": "releases.table:on_device",
        "planned_for": "plans.planning:planned_for",
        "kept_plans": "fit.kept:kept_plans",
    },
    workers=(
        "xla.jax_plan",
        "releases.jax_older",
        "releases.jax_reported",
        "releases.torch_other",
        "simulation.torch_plan",
        "judge.torch_worker",
    ),
    records={
        "planned": "plans.planned:Planned",
        "planned_earlier": "plans.planned:Planned",
        "planned_reports": "releases.reported:Reported",
        "measured_elsewhere/predicted": "judge.judged:Judged",
    },
)
