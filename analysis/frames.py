"""Records as flat rows, and rows as a table. `analysis.selection` tells which records count where a case has several."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import pandas as pd

from analysis.selection import comparable_times
from analysis.statistics import BETWEEN_PROCESSES, spread
from framebench.records.record import Calibration, Record, work_of
from framebench.suite.registry import names
from framebench.suite.strategy import FRAMEWORKS

SAME = ["machine", "workload", "framework", "framework_version", "scenario", "batch", "size", "protocol"]  # as the baseline
PAIRED = ["peak_bytes", "peak_instrument", "step_time_s", "first_step_s", "measured_at"]  # what is compared with the baseline's


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
    measured_at: Annotated[datetime, "UTC", "when"]
    baseline: Annotated[bool, "", "whether the strategy is the baseline of its scenario, which the ratios refer to"]
    same_mathematics: Annotated[bool, "", "whether the strategy computes what the baseline does"]
    only_for_claims: Annotated[bool, "", "whether the strategy only tests an article's sentence: main tables leave it out"]
    usable: Annotated[bool, "", "status ok, verified, and the strategy was seen to take effect"]


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
)


def calibrated(found: Calibration | None) -> str:
    if found is None:
        return "not done"
    return "passed" if found.passed else f"FAILED ({', '.join(found.failed)})"


def row(r: Record) -> Row:
    case, proof, instrument, step_s = r.parsed, r.provenance, r.peak_instrument, r.step_time_s
    low, high = spread(r.step_s) if len(r.step_s) > 1 else (None, None)
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
        verified=r.verified,
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
        excess=r.excess,
        contended=r.contended,
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
        measured_at=proof.measured_at,
        baseline=case.strategy == case.stage.baseline,
        same_mathematics=case.plan.same_loss,
        only_for_claims=case.plan.only_for_claims,
        usable=r.usable,
    )


def frame(found: Iterable[Record]) -> pd.DataFrame:
    """A row for each of these records, with the columns of COLUMNS, in the order of the published tables.

    Ratios are to the baseline of the same workload, framework, version, scenario, batch, size, machine and protocol. They are
    missing where the baseline is, of peaks where two instruments read them, and of times on a processor where more than an
    hour lies between them (`selection.comparable_times`).

    `break_even_steps`: after so many steps, faster than the baseline's, a longer first step has paid; infinite if they are
    slower, missing if the first step is no longer. Of single processes a difference counts that is larger than usual between
    two processes of one case; where there is none, the break-even is missing too.
    """
    table = pd.DataFrame(map(row, found), columns=list(Row._fields))
    table["measured_at"] = pd.to_datetime(table["measured_at"], utc=True)
    table = in_order(table.astype({c.name: c.dtype for c in COLUMNS if c.name in Row._fields}))
    base = table.loc[table["baseline"], [*SAME, *PAIRED]]
    both = table.merge(base, on=SAME, how="left", suffixes=("", "_base"))
    comparable = both["peak_instrument"] == both["peak_instrument_base"]
    taken = zip(both["measured_at"], both["measured_at_base"], both["device"])
    fair = pd.Series([comparable_times(*moments, device=device) for *moments, device in taken], both.index, dtype=bool)
    lost, gained = both["first_step_s"] - both["first_step_s_base"], both["step_time_s_base"] - both["step_time_s"]
    longer = lost > BETWEEN_PROCESSES * both["first_step_s_base"]
    told = gained.abs() > BETWEEN_PROCESSES * both["step_time_s_base"]
    return table.assign(
        peak_ratio=(both["peak_bytes"] / both["peak_bytes_base"]).where(comparable),
        time_ratio=(both["step_time_s"] / both["step_time_s_base"]).where(fair),
        break_even_steps=(lost / gained).where(gained > 0, math.inf).where(longer & told & fair),
    )


def in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Sorted: framework by framework, strategies as in the registry; a process that could not tell its version comes first."""
    places = table.assign(
        place=[FRAMEWORKS.index(framework) for framework in table["framework"]],
        rank=[rank(*pair) for pair in zip(table["scenario"], table["strategy"])],
    )
    by = ["machine", "workload", "size", "scenario", "batch", "place", "framework_version", "rank", "strategy"]
    return table.loc[places.sort_values(by, na_position="first").index].reset_index(drop=True)


@cache
def rank(scenario: str, strategy: str) -> int:
    """The strategy's place among those of the scenario; a combination that is in no profile comes last."""
    known = names(scenario)
    return known.index(strategy) if strategy in known else len(known)
