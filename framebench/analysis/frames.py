"""Records as flat rows, one for each case, and rows as a table. `framebench.analysis.selection` tells which of a case's
records count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from statistics import median
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import pandas as pd

from framebench.analysis.blocks import Blocks
from framebench.analysis.flops import step_flops
from framebench.analysis.selection import Measured, measured_at, select_cases
from framebench.analysis.statistics import Ratio
from framebench.records.record import Calibration, Record, work_of
from framebench.suite.registry import names
from framebench.suite.strategy import FRAMEWORKS


class Row(NamedTuple):
    """One case, flat; None where there is no such number. Annotated with type, unit and meaning, for `COLUMNS`."""

    case: Annotated[str, "", "workload/framework/scenario/strategy/bN/size; bNxM over M ranks"]
    workload: Annotated[str, "", "the model, such as transformer"]
    framework: Annotated[str, "", "torch, jax or jittor"]
    scenario: Annotated[str, "", "what a step does, such as train or eval"]
    strategy: Annotated[str, "", "how memory is saved, such as checkpoint; fp32 is the baseline of training"]
    batch: Annotated[int, "samples", "in one step"]
    size: Annotated[str, "", "of model and input: tiny, cpu, full"]
    ranks: Annotated[int, "", "processes or devices that share the step"]
    status: Annotated[str, "", "ok, oom, timeout, crashed, unsupported or wrong; only ok has numbers"]
    reason: Annotated[str | None, "", "why the status is not ok"]
    verified: Annotated[bool | None, "", "whether the results passed verification (docs/verification.md)"]
    worst_error: Annotated[float | None, "", "the largest of the verification's relative errors"]
    mathematics_error: Annotated[
        float | None, "", "the largest relative error of the strategy's step in float64; missing where it was not computed"
    ]
    effect_proven: Annotated[bool | None, "", "whether the strategy was seen to take effect"]
    peak_bytes: Annotated[int | None, "bytes", "peak of a steady step, by `peak_instrument`"]
    peak_instrument: Annotated[str | None, "", "who read the peak; peaks of two instruments are not comparable"]
    fullest_rank_bytes: Annotated[int | None, "bytes", "peak of the rank that needs most: `peak_bytes`; missing without ranks"]
    emptiest_rank_bytes: Annotated[int | None, "bytes", "peak of the rank that needs least"]
    predicted_bytes: Annotated[int | None, "bytes", "of the fullest rank: its peak as `framebench predict` says it"]
    host_rss_bytes: Annotated[int | None, "bytes", "peak by host.rss, the one instrument that all frameworks have on a CPU"]
    shared_bytes: Annotated[int | None, "bytes", "peak by `shared_instrument`: the one to compare frameworks by"]
    shared_instrument: Annotated[str | None, "", "host.rss on a CPU; NVML's count on a card, missing where it has none"]
    step_bytes: Annotated[int | None, "bytes", "peak by `step_instrument`: the one to compare strategies of a framework by"]
    step_instrument: Annotated[str | None, "", "host.rss on a CPU; on another device `peak_instrument`"]
    cold_peak_bytes: Annotated[int | None, "bytes", "peak of the first step, with compilation and autotuning"]
    live_bytes: Annotated[int | None, "bytes", "alive between steps: weights, gradients, optimizer states, inputs"]
    elsewhere_bytes: Annotated[
        int, "bytes", "that a user's program holds beside these: globals, closures, attributes; in the peak"
    ]
    activation_bytes: Annotated[
        int | None, "bytes", "saved by a forward pass for the backward pass; of PyTorch's eager steps but `checkpoint_dots`"
    ]
    step_time_s: Annotated[float | None, "s", "median over blocks of a process's median step"]
    step_low_s: Annotated[float | None, "s", "the shortest of the blocks' medians"]
    step_high_s: Annotated[float | None, "s", "the longest of them"]
    blocks: Annotated[int, "", "that it was timed in, a fresh process each; 0 without times"]
    samples: Annotated[int, "", "timed turns, over all blocks"]
    instructions_per_step: Annotated[float | None, "", "in user space; missing where the processor does not count them"]
    reference_share: Annotated[
        float | None, "", "on a CPU, rate of the model's operations over that of the block's reference product"
    ]
    throughput: Annotated[float | None, "unit/s", "work of a step by its time"]
    unit: Annotated[str, "", "of the throughput: samples or tokens"]
    first_step_s: Annotated[float | None, "s", "the first step, with compilation"]
    collector_share: Annotated[float | None, "", "of the step time: Python's garbage collector"]
    wait_share: Annotated[float | None, "", "of the step time: waiting for input"]
    machine: Annotated[str, "", "where it was measured"]
    device: Annotated[str | None, "", "cpu, or the name of the GPU"]
    cpu: Annotated[str | None, "", "the processor"]
    threads: Annotated[int | None, "", "of the process; 1 was pinned to a core"]
    core: Annotated[int | None, "", "that it was pinned to"]
    framework_version: Annotated[str | None, "", "release; missing where a process died before it could tell"]
    calibration: Annotated[str, "", "of the machine's instruments: passed, not done, or what failed"]
    commit: Annotated[str | None, "", "of framebench"]
    dirty: Annotated[bool | None, "", "whether the code differed from the commit"]
    protocol: Annotated[int, "", "of the measurement; numbers of two protocols are not comparable"]
    session: Annotated[str, "", "one run of the suite"]
    command: Annotated[str, "", "what was typed"]
    measured_at: Annotated[datetime, "UTC", "when"]
    baseline: Annotated[bool, "", "whether the strategy is the baseline of its scenario, which the ratios refer to"]
    same_mathematics: Annotated[bool, "", "whether it computes what its baseline does; batch norm over micro-batches does not"]
    only_for_claims: Annotated[bool, "", "whether the strategy only tests an article's sentence: main tables leave it out"]
    usable: Annotated[bool, "", "status ok, verified, and the strategy was seen to take effect"]
    peak_ratio: Annotated[float | None, "", "`peak_bytes` over the baseline's; missing where two instruments read them"]
    shared_ratio: Annotated[float | None, "", "`shared_bytes` over the baseline's; missing where two instruments read them"]
    step_ratio: Annotated[float | None, "", "`step_bytes` over the baseline's: to compare strategies of one framework"]
    eager_ratio: Annotated[
        float | None, "", "peak over that of the same without torch.compile; missing of what is not compiled"
    ]
    time_ratio: Annotated[float | None, "", "step time over the baseline's, from the blocks that both were in; else missing"]
    time_ratio_low: Annotated[float | None, "", "lower end of its 95 % interval over blocks; missing of fewer than 3 blocks"]
    time_ratio_high: Annotated[float | None, "", "upper end of it"]
    time_ratio_p: Annotated[float | None, "", "two-sided p of a ratio of 1, not corrected for other tests on a page"]
    torch_ratio: Annotated[float | None, "", "step time over that of PyTorch's baseline, from the blocks that both were in"]
    torch_ratio_low: Annotated[float | None, "", "lower end of its 95 % interval over blocks; missing of fewer than 3 blocks"]
    torch_ratio_high: Annotated[float | None, "", "upper end of it"]


class Column(NamedTuple):
    """A column of the DataFrame that `framebench.load` returns."""

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


COLUMNS = tuple(column(name, annotated) for name, annotated in get_type_hints(Row, include_extras=True).items())


def calibrated(calibration: Calibration | None) -> str:
    if calibration is None:
        return "not done"
    return "passed" if calibration.passed else f"FAILED ({', '.join(calibration.failed)})"


def rows(all_records: Iterable[Record]) -> list[Row]:
    """One for each machine, case and framework version among these records, sorted by these.

    Ratios are to the baseline of the same workload, framework, version, scenario, batch, size and machine. They are missing
    where the baseline is; of peaks where two instruments read them; of times where the two share no block.
    """
    cases = select_cases(all_records)
    timed_blocks = Blocks(r for measured in cases for r in measured.timed)
    bases = {alike(m): m for m in cases if _is_base(m.newest)}
    newest = sorted(bases.values(), key=lambda m: measured_at(m.newest))
    torch = {of_torch(m): m for m in newest if m.newest.parsed.framework == "torch"}
    by_parts = {(alike(m), _parts_of(m)): m for m in cases}
    eager = [by_parts.get((alike(m), _parts_of(m) - compiled)) if (compiled := _compiled_parts(m)) else None for m in cases]
    return [row(m, bases.get(alike(m)), torch.get(of_torch(m)), e, timed_blocks) for m, e in zip(cases, eager)]


def _compiled_parts(m: Measured) -> frozenset[str]:
    """Those of its parts that compile, in whatever mode."""
    return frozenset(part.name for part in m.newest.parsed.plan.parts if part.how in ("compile", "compile_step"))


def _parts_of(m: Measured) -> frozenset[str]:
    """The names of what is combined; of a baseline none."""
    return frozenset(part.name for part in m.newest.parsed.plan.parts) - {m.newest.parsed.stage.baseline}


def _is_base(r: Record) -> bool:
    return r.parsed.strategy == r.parsed.stage.baseline


def alike(m: Measured) -> tuple[object, ...]:
    """What a case shares with its baseline."""
    return m.newest.parsed.framework, m.newest.framework_version, *of_torch(m)


def of_torch(m: Measured) -> tuple[object, ...]:
    """What it shares with PyTorch's baseline."""
    case = m.newest.parsed
    return case.workload, case.scenario, case.batch, case.size, case.ranks, m.newest.provenance.machine


def row(m: Measured, base: Measured | None, torch: Measured | None, eager: Measured | None, timed_blocks: Blocks) -> Row:
    r, case = m.newest, m.newest.parsed
    errors = [e for e in r.verification.relative_error.values() if e is not None] if r.verification else []
    mathematics = r.verification.mathematics if r.verification else None
    of_base, of_torchs = ratio(timed_blocks, base, m), ratio(timed_blocks, torch, m)
    return Row(
        case=r.case,
        workload=case.workload,
        framework=case.framework,
        scenario=case.scenario,
        strategy=case.strategy,
        batch=case.batch,
        size=case.size,
        ranks=case.ranks,
        status=r.status,
        reason=r.reason,
        verified=r.verified,
        worst_error=max(errors, default=None),
        mathematics_error=mathematics.error if mathematics else None,
        effect_proven=r.effect.proven if r.effect else None,
        **_memory(m.read),
        **_times(m),
        **_origin(r),
        baseline=case.strategy == case.stage.baseline,
        same_mathematics=case.same_mathematics,
        only_for_claims=case.plan.only_for_claims,
        usable=r.usable,
        peak_ratio=peak_ratio(m, base),
        shared_ratio=peak_ratio(m, base, "shared_instrument"),
        step_ratio=peak_ratio(m, base, "step_instrument"),
        eager_ratio=peak_ratio(m, eager),
        time_ratio=of_base and of_base.value,
        time_ratio_low=of_base and of_base.low,
        time_ratio_high=of_base and of_base.high,
        time_ratio_p=of_base and of_base.p,
        torch_ratio=of_torchs and of_torchs.value,
        torch_ratio_low=of_torchs and of_torchs.low,
        torch_ratio_high=of_torchs and of_torchs.high,
    )


def _memory(read: Record) -> dict[str, Any]:
    instrument = read.peak_instrument
    selective = any(part.how == "checkpoint_dots" for part in read.parsed.parts)  # keeps products beside autograd's graph
    of_ranks = [rank.peaks[instrument] for rank in read.ranks if instrument]
    return {
        "peak_bytes": read.peak_bytes,
        "peak_instrument": instrument,
        "fullest_rank_bytes": max(of_ranks, default=None),
        "emptiest_rank_bytes": min(of_ranks, default=None),
        "predicted_bytes": read.predicted_bytes,
        "host_rss_bytes": read.peaks.get("host.rss"),
        "shared_bytes": read.peaks.get(read.shared_instrument or ""),
        "shared_instrument": read.shared_instrument,
        "step_bytes": read.peaks.get(read.step_instrument or ""),
        "step_instrument": read.step_instrument,
        "cold_peak_bytes": read.cold_peaks.get(instrument) if instrument else None,
        "live_bytes": read.live_bytes,
        "elsewhere_bytes": sum(read.elsewhere.values()),
        "activation_bytes": read.effect.evidence.get("activation_bytes") if read.effect and not selective else None,
    }


def _times(m: Measured) -> dict[str, Any]:
    """Over all of its blocks."""
    case = m.newest.parsed
    work = work_of(case)
    times = [one.step_time_s for one in m.timed if one.step_time_s is not None]
    counted = [median(one.instructions) for one in m.timed if one.instructions]
    first_steps = (one.first_step_s for one in reversed(m.timed) if one.first_step_s is not None)
    return {
        "step_time_s": median(times) if times else None,
        "step_low_s": min(times, default=None),
        "step_high_s": max(times, default=None),
        "blocks": len(m.timed),
        "samples": sum(len(one.step_s) for one in m.timed),
        "instructions_per_step": median(counted) if counted else None,
        "reference_share": reference_share(m.timed),
        "throughput": work / median(times) if work and times else None,
        "unit": case.spec.unit if case.known else "",
        "first_step_s": next(first_steps, m.newest.first_step_s),
        "collector_share": m.timed[-1].shares.get("collector") if m.timed else None,
        "wait_share": m.timed[-1].shares.get("wait") if m.timed else None,
    }


def _origin(r: Record) -> dict[str, Any]:
    proof = r.provenance
    same = ("machine", "threads", "core", "commit", "dirty", "protocol", "session", "command", "measured_at")
    return {name: getattr(proof, name) for name in same} | {
        "device": proof.hardware.get("device"),
        "cpu": proof.hardware.get("cpu"),
        "framework_version": r.framework_version,
        "calibration": calibrated(proof.calibration),
    }


def ratio(timed_blocks: Blocks, base: Measured | None, m: Measured) -> Ratio | None:
    """Step time over that of `base`; 1 of a case over itself, which needs no interval."""
    if base is None or not base.timed or not m.timed:
        return None
    return Ratio(1.0, 1.0, 1.0, None, len(m.timed)) if base is m else timed_blocks.ratio(base.timed, m.timed)


def peak_ratio(m: Measured, base: Measured | None, by: str = "peak_instrument") -> float | None:
    """Both are the largest over the steps of one process; None where two instruments read them."""
    if base is None or not (instrument := getattr(m.read, by)) or instrument != getattr(base.read, by):
        return None
    peak, other = m.read.peaks[instrument], base.read.peaks[instrument]
    return peak / other if peak and other else None


def reference_share(timed: Sequence[Record]) -> float | None:
    """Operations a second that a step makes, over those of the reference product in the same round: median over rounds, then
    over blocks. None on a card, since the product is the host's, and where a step's operations are not counted
    (`flops.step_flops`)."""
    work = step_flops(timed[0].parsed) if timed and timed[0].on_cpu else None
    shares = [
        median((work or 0) / step / (t.reference_flop / product) for step, product in zip(r.step_s, t.reference_s))
        for r in timed
        if (t := r.turns_taken).reference_s
    ]
    return median(shares) if work and shares else None


def frame(all_records: Iterable[Record]) -> pd.DataFrame:
    """The `rows` of these records with the columns of COLUMNS, in the order of the published tables. What one rank of several
    needs is compared with other ranks alone, in `framebench.features.ranks.table`, and is in none of them."""
    return of_rows(rows(r for r in all_records if r.parsed.ranks == 1))


def of_rows(every: Sequence[Row]) -> pd.DataFrame:
    """As above, from rows."""
    table = pd.DataFrame(every, columns=list(Row._fields))
    table["measured_at"] = pd.to_datetime(table["measured_at"], utc=True)
    return in_order(table.astype({c.name: c.dtype for c in COLUMNS}))


def ratios(df: pd.DataFrame, name: str = "time_ratio") -> list[Ratio | None]:
    """Of each row: `time_ratio` or `torch_ratio` with its interval; None where there is none."""
    columns = [df[column].astype(object).where(df[column].notna(), None) for column in (name, f"{name}_low", f"{name}_high")]
    return [None if value is None else Ratio(value, low, high) for value, low, high in zip(*columns)]


def decided(df: pd.DataFrame, name: str = "time_ratio") -> pd.Series:
    """Whether a row has this ratio, and an interval that is narrow enough to tell."""
    return pd.Series([step_ratio is not None and step_ratio.decided for step_ratio in ratios(df, name)], df.index, dtype=bool)


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
    strategies = names(scenario)
    return strategies.index(strategy) if strategy in strategies else len(strategies)
