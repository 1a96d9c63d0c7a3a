"""Articles' claims and trackers' reports, judged by the records."""

from framebench.extensions import Feature

FEATURE = Feature(
    "Articles' claims and trackers' reports, judged by the records.",
    {
        "documents": "show:tables",
        "pages": "pages:pages",
    },
    workers=("probes.collector", "probes.inputs", "probes.monitor", "probes.names", "probes.report"),
    records={"claims": "probed_record:Probed"},
)
