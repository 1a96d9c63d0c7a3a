"""Records as flat rows: one row per case, machine and framework version. `preferred` tells which
records count where a case has several."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints

from analysis import statistics
from analysis.statistics import BETWEEN_PROCESSES, spread
from framebench.measure import environments
from framebench.records.record import CONTENDED, Calibration, Record, case_of, work_of
from framebench.suite.registry import BASELINES, names
from framebench.suite.strategy import FRAMEWORKS

if TYPE_CHECKING:
    import pandas as pd  # imported where a table is made: what answers from rows alone does not wait for it

T = TypeVar("T")
M = TypeVar("M", str, datetime)  # a moment
PAIRED = ("peak_bytes", "peak_instrument", "step_time_s", "first_step_s", "measured_at")  # what is compared with the baseline's


class Row(NamedTuple):
    """One record, flat; None where there is no such number. Annotated with type, unit and meaning, for `COLUMNS`."""

    case: Annotated[str, "", "workload/framework/scenario/strategy/bN/size"]
    workload: Annotated[str, "", "the model, such as transformer"]
    framework: Annotated[str, "", "torch, jax or jittor"]
    scenario: Annotated[str, "", "what a step does, such as train or eval"]
    strategy: Annotated[str, "", "how memory is saved, such as checkpoint; fp32 is the baseline of training"]
    batch: Annotated[int, "samples", "in one step"]
    size: Annotated[str, "", "of model and input: tiny, cpu, full"]
    status: Annotated[str, "", "ok, oom, timeout, crashed, unsupported or wrong; only ok has numbers"]
    reason: Annotated[str | None, "", "why the status is not ok"]
    verified: Annotated[bool | None, "", "whether the results agreed with float64"]
    worst_error: Annotated[float | None, "", "the largest of the verification's relative errors"]
    effect_proven: Annotated[bool | None, "", "whether the strategy was seen to take effect"]
    peak_bytes: Annotated[int | None, "bytes", "peak of a steady step, by `peak_instrument`"]
    peak_instrument: Annotated[str | None, "", "who read the peak; peaks of two instruments are not comparable"]
    host_rss_bytes: Annotated[int | None, "bytes", "peak by host.rss, the one instrument that all frameworks have on a CPU"]
    cold_peak_bytes: Annotated[int | None, "bytes", "peak of the first step, with compilation and autotuning"]
    live_bytes: Annotated[int | None, "bytes", "alive between steps: weights, gradients, optimizer states, inputs"]
    step_time_s: Annotated[float | None, "s", "median over the steps of one process"]
    step_low_s: Annotated[float | None, "s", "lower end of the median's bootstrap 95 % interval, of this process alone"]
    step_high_s: Annotated[float | None, "s", "upper end of it"]
    excess: Annotated[float, "", "wall-clock over CPU time of a step, waiting for input aside; 1 where they need not agree"]
    contended: Annotated[bool, "", "others used the core: the step time is too long"]
    samples: Annotated[int, "", "timed steps"]
    throughput: Annotated[float | None, "unit/s", "work of a step by its time"]
    unit: Annotated[str, "", "of the throughput: samples or tokens"]
    first_step_s: Annotated[float | None, "s", "the first step, with compilation"]
    collector_share: Annotated[float | None, "", "of the step time: Python's garbage collector"]
    wait_share: Annotated[float | None, "", "of the step time: waiting for input"]
    machine: Annotated[str, "", "where it was measured"]
    device: Annotated[str | None, "", "cpu, or the name of the GPU"]
    cpu: Annotated[str | None, "", "the processor"]
    threads: Annotated[int | None, "", "of the process; 1 was pinned to a core"]
    framework_version: Annotated[str | None, "", "release; missing where a process died before it could tell"]
    calibration: Annotated[str, "", "of the machine's instruments: passed, not done, or what failed"]
    commit: Annotated[str | None, "", "of framebench"]
    dirty: Annotated[bool | None, "", "whether the code differed from the commit"]
    protocol: Annotated[int, "", "of the measurement; numbers of two protocols are not comparable"]
    session: Annotated[str, "", "one run of the suite"]
    command: Annotated[str, "", "what was typed"]
    measured_at: Annotated[str, "UTC", "when"]


class Column(NamedTuple):
    """A column of the DataFrame that `analysis.load` returns."""

    name: str
    dtype: str
    unit: str
    meaning: str


DTYPES = {
    str: "str", str | None: "str", int: "int64", int | None: "Int64", float: "float64", float | None: "float64", bool: "bool",
    bool | None: "boolean",
}  # fmt: skip


def column(name: str, annotated: Any) -> Column:
    """Measurements are floats, NaN where there is none: matplotlib cannot draw pandas' NA, and bytes are exact up to 2**53."""
    kind, (unit, meaning) = get_args(annotated)[0], annotated.__metadata__
    dtype = "datetime64[us, UTC]" if unit == "UTC" else "float64" if unit == "bytes" else DTYPES[kind]
    return Column(name, dtype, unit, meaning)


COLUMNS = (
    *(column(name, annotated) for name, annotated in get_type_hints(Row, include_extras=True).items()),
    Column("peak_ratio", "float64", "", "peak over the baseline's; missing where two instruments read them"),
    Column("time_ratio", "float64", "", "step time over the baseline's; missing where over an hour lies between them on a CPU"),
    Column("break_even_steps", "float64", "steps", "after which a longer first step has paid; infinite if it never does"),
    Column("baseline", "bool", "", "whether the strategy is the baseline of its scenario, which the ratios refer to"),
    Column("same_mathematics", "bool", "", "whether the strategy computes what the baseline does"),
    Column("only_for_claims", "bool", "", "whether the strategy only tests an article's sentence: main tables leave it out"),
    Column("usable", "bool", "", "status ok, verified, and the strategy was seen to take effect"),
)


def calibrated(found: Calibration | None) -> str:
    if found is None:
        return "not done"
    return "passed" if found.passed else f"FAILED ({', '.join(found.failed)})"


def row(r: Record) -> Row:
    case, proof, instrument, step_s = r.parsed, r.provenance, r.peak_instrument, r.step_time_s
    low, high = spread(r.step_s) if len(r.step_s) > 1 else (None, None)
    excess = r.excess
    errors = [e for e in r.verification.relative_error.values() if e is not None] if r.verification else []
    return Row(
        case=r.case,
        workload=case.workload,
        framework=case.framework,
        scenario=case.scenario,
        strategy=case.strategy,
        batch=case.batch,
        size=case.size,
        status=r.status,
        reason=r.reason,
        verified=r.verification.passed if r.verification else None,
        worst_error=max(errors, default=None),
        effect_proven=r.effect.proven if r.effect else None,
        peak_bytes=r.peaks[instrument] if instrument else None,
        peak_instrument=instrument,
        host_rss_bytes=r.peaks.get("host.rss"),
        cold_peak_bytes=r.cold_peaks.get(instrument) if instrument else None,
        live_bytes=r.live_bytes,
        step_time_s=step_s,
        step_low_s=low,
        step_high_s=high,
        excess=excess,
        contended=excess > CONTENDED,
        samples=len(r.step_s),
        throughput=None if step_s is None else work_of(case) / step_s,
        unit=case.spec.unit,
        first_step_s=r.first_step_s,
        collector_share=r.shares.get("collector"),
        wait_share=r.shares.get("wait"),
        machine=proof.machine,
        device=proof.hardware.get("device"),
        cpu=proof.hardware.get("cpu"),
        threads=proof.threads,
        framework_version=r.framework_version,
        calibration=calibrated(proof.calibration),
        commit=proof.commit,
        dirty=proof.dirty,
        protocol=proof.protocol,
        session=proof.session,
        command=proof.command,
        measured_at=proof.measured_at.isoformat(),
    )


def latest(found: Iterable[Record]) -> list[Row]:
    """A row for each case, machine and framework version, sorted (`chosen`); without records under a limit of memory."""
    every: dict[tuple[str, str, str], list[Row]] = {}
    for record in found:
        if record.provenance.memory_limit is None:  # what a case does under a limit is not what it needs
            made = row(record)
            every.setdefault((made.machine, made.case, made.framework_version or ""), []).append(made)
    return [chosen(every[key]) for key in sorted(every)]


def chosen(rows: list[Row]) -> Row:
    """Which of a case's rows counts: the newest, if it has no numbers; else the newest of the `preferred` ones of its
    protocol."""
    if len(rows) == 1:
        return rows[0]
    when = {id(r): datetime.fromisoformat(r.measured_at) for r in rows}
    last = max(rows, key=lambda r: when[id(r)])
    if last.status != "ok":
        return last
    alike = [r for r in rows if r.status == "ok" and r.protocol == last.protocol]
    return max(preferred(alike, lambda r: (r.contended, r.session)), key=lambda r: when[id(r)])


def preferred(found: list[T], told: Callable[[T], tuple[bool, str]]) -> list[T]:
    """Of a case's ok records those that nobody disturbed, if there are some; and of these the ones measured alone, if there are
    some, rather than in the rounds of a comparison, whose processes are there to be paired with their neighbours.

    `told` names whether one was disturbed, and its session.
    """
    rounds = Counter(told(one)[1] for one in found)
    calm = [one for one in found if not told(one)[0]] or found
    return [one for one in calm if rounds[told(one)[1]] == 1] or calm


def near(one: Row, other: Row) -> bool:
    """Whether the ratio of their times says something: on a processor that others share, times drift."""
    taken = (datetime.fromisoformat(r.measured_at) for r in (one, other))
    return "cpu" not in (one.device, other.device) or statistics.near(*taken)


def frame(rows: list[Row]) -> pd.DataFrame:
    """The rows as a table with `peak_ratio` and `time_ratio` to the baseline strategy of the same group.

    `break_even_steps`: after so many steps, faster than the baseline's, a longer first step has paid; infinite if they are
    slower, missing if the first step is no longer. Of single processes a difference counts that is larger than usual between
    two processes of one case; where there is none, the break-even is missing too.

    The baseline (BASELINES) has the same workload, framework, version, scenario, batch, size, machine and protocol; a ratio is
    missing where the baseline is, of the peaks where they were read by different instruments, and of times on a processor
    where more than an hour lies between them (`statistics.near`, docs/study.md).
    """
    import pandas as pd

    table = pd.DataFrame(rows, columns=list(Row._fields))
    same = ["machine", "workload", "framework", "framework_version", "scenario", "batch", "size", "protocol"]
    base = table[table["strategy"] == table["scenario"].map(BASELINES)]
    base = base[[*same, *PAIRED]]
    table = table.merge(base, on=same, how="left", suffixes=("", "_base"))
    comparable = table["peak_instrument"] == table["peak_instrument_base"]
    table["peak_ratio"] = (table["peak_bytes"] / table["peak_bytes_base"]).where(comparable)
    taken = (pd.to_datetime(table[c], format="ISO8601", utc=True) for c in ("measured_at", "measured_at_base"))
    near = (table["device"] != "cpu") | pd.Series([statistics.near(*both) for both in zip(*taken)], table.index)
    table["time_ratio"] = (table["step_time_s"] / table["step_time_s_base"]).where(near)
    seconds = table[["first_step_s", "first_step_s_base", "step_time_s", "step_time_s_base"]].astype(float)
    lost, gained = seconds["first_step_s"] - seconds["first_step_s_base"], seconds["step_time_s_base"] - seconds["step_time_s"]
    longer = lost > BETWEEN_PROCESSES * seconds["first_step_s_base"]
    told = gained.abs() > BETWEEN_PROCESSES * seconds["step_time_s_base"]
    table["break_even_steps"] = (lost / gained).where(gained > 0, math.inf).where(longer & told & near)
    return table.drop(columns=[f"{column}_base" for column in PAIRED])


def settled(framework: str, last: dict[str, M]) -> str:
    """Which version of a framework counts on a machine, from when each was measured last: the pinned one, or without records
    of it the one measured last. `analysis.reports.versions` compares the versions."""
    pinned = environments.default_version(framework)
    return pinned if pinned in last else max(last, key=lambda version: last[version])


def current(table: pd.DataFrame) -> pd.DataFrame:
    """One version of each framework and machine (`settled`), for tables in which a case has one row."""
    named = table[table["framework_version"].notna()].sort_values("measured_at")
    last: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for machine, framework, version, at in zip(
        *(named[c] for c in ("machine", "framework", "framework_version", "measured_at"))
    ):
        last[machine, framework][version] = at
    shown = [settled(each[1], last[each]) if each in last else None for each in zip(table["machine"], table["framework"])]
    # a process that died before it could name its version is forgotten once its case was measured again
    newest = ~table.sort_values("measured_at", ascending=False).duplicated(["machine", "case"])
    return table[(table["framework_version"] == shown) | (table["framework_version"].isna() & newest)]


def tidy(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `frame` with the columns and dtypes of COLUMNS, its rows in the order of the published tables."""
    import pandas as pd

    table = table.assign(
        measured_at=pd.to_datetime(table["measured_at"], format="ISO8601", utc=True),
        baseline=table["strategy"] == table["scenario"].map(BASELINES),
        same_mathematics=[case_of(case).plan.same_loss for case in table["case"]],
        only_for_claims=[case_of(case).plan.only_for_claims for case in table["case"]],
        usable=[r == ("ok", True, True) for r in zip(table["status"], table["verified"], table["effect_proven"])],
        place=[FRAMEWORKS.index(framework) for framework in table["framework"]],
        rank=[rank(*pair) for pair in zip(table["scenario"], table["strategy"])],
    )
    order = ["machine", "workload", "size", "scenario", "batch", "place", "framework_version", "rank", "strategy"]
    table = table.sort_values(order, ignore_index=True)
    return table[[c.name for c in COLUMNS]].astype({c.name: c.dtype for c in COLUMNS})


@cache
def rank(scenario: str, strategy: str) -> int:
    """The strategy's place among those of the scenario; a combination that is in no profile comes last."""
    known = names(scenario)
    return known.index(strategy) if strategy in known else len(known)
