"""Make comparison tables: in each, one factor varies, and the caption has what was held constant.

Each starts from the table of `framebench.analysis.frames.make_frame`, with one version of each
framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from textwrap import shorten
from typing import Any

import pandas as pd

from framebench.analysis.frames import read_ratios
from framebench.analysis.needs import describe_lenders, format_needs
from framebench.analysis.rendering import (
    IN_SHORT,
    Table,
    TableColumn,
    format_number,
    is_missing,
    read_columns,
)
from framebench.models import spec
from framebench.strategies.registry import describe_precisions, find_baseline, look_up_strategy
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.case import Case
from framebench.suite.counting import format_span
from framebench.suite.sequences import drop_duplicates

PLACE = ["workload", "size", "batch"]
# each combination of these has a table of strategies
QUESTION = ["machine", "workload", "size", "scenario", "batch"]
READING = "How to read it: docs/reading.md."
WITHOUT = "without times (`--rounds 0`)"
MANY_COMMANDS = 3  # if more commands measured a table's rows, only their number is given


# framebench/adapters/jax/checkpoint.py sets the option
RECOMPUTED_IN_JAX = (
    "jax, checkpoint on a CPU: without a scanned layer, XLA merges a recomputation away, so that "
    "it saves nothing, unless its pass cse_barrier_expander is off, as here; in your program: "
    "jax.jit(step, compiler_options={'xla_disable_hlo_passes': 'cse_barrier_expander'})"
)


def format_flag(value: Any) -> str:
    """Return `yes`, or NO, which should be noticed."""
    return "yes" if value else "NO"


def format_interval(low: float | None, high: float | None) -> str:
    """Return two ends in seconds as milliseconds."""
    if is_missing(low) or is_missing(high):
        return "-"
    return f"{format_number(low, ',.1f', 1e3)} to {format_number(high, ',.1f', 1e3)}"


def format_throughput(value: float | None, unit: str) -> str:
    """Return a throughput with its unit."""
    return "-" if is_missing(value) else f"{format_number(value, ',.1f')} {unit}/s"


def format_time_ratios(df: pd.DataFrame, name: str = "time_ratio") -> list[str]:
    """Return each row's ratio of step times (`statistics.Ratio.text`); 1.00 for the base itself."""
    texts = []
    for ratio in read_ratios(df, name):
        if ratio is None:
            texts.append("-")
        elif ratio.low == ratio.high == 1:
            texts.append("1.00")
        else:
            texts.append(ratio.text)
    return texts


SHORT = read_columns("strategies", needs_bytes=format_needs)
SHOWN = SHORT | read_columns("details", effect_proven=format_flag)
# On a GPU the peak is the whole process's, so what a strategy saves of a step is read by the
# framework's own counter; and a matmul on the host is no reference.
ON_GPU = read_columns("on a GPU")
NOT_ON_GPU = "reference_share"
SHARES = read_columns("shares")
WORTH_SHOWING = 0.01  # of a step: a smaller share in every row is left out


def make_cells(df: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the columns of SHOWN and SHARES.

    A row without numbers shows its status instead of a peak; its reason is in the table's notes.
    """
    cells = df.assign(
        range=list(map(format_interval, df["step_low_s"], df["step_high_s"])),
        relative=format_time_ratios(df),
        throughput=list(map(format_throughput, df["throughput"], df["unit"])),
    )
    is_ok = df["status"] == "ok"
    # the first two columns say what a row is about
    _framework, _strategy, *numbers = [*SHOWN, *SHARES]
    # as objects, since a column has both numbers and the status of rows without any
    cells[numbers] = cells[numbers].astype(object).where(is_ok, None)
    cells["shared_bytes"] = cells["shared_bytes"].where(is_ok, df["status"])
    return cells


def select_columns(df: pd.DataFrame, shown: dict[str, TableColumn]) -> dict[str, TableColumn]:
    """Return the columns of `shown` that suit the device on which these rows were measured."""
    if not is_on_gpu(df):
        return shown
    return {name: ON_GPU.get(name, shown[name]) for name in shown if name != NOT_ON_GPU}


def is_on_gpu(df: pd.DataFrame) -> bool:
    """Return whether any of the rows was measured on a GPU."""
    return bool((df["device"].dropna() != "cpu").any())


def select_in_use(df: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of strategies that people use."""
    return df[~df["only_for_claims"]]


def make_claim_tables(df: pd.DataFrame) -> Iterator[Table]:
    """Yield tables, framework x strategy, of strategies that only test an article's sentence.

    The baselines are in them.
    """
    for _, group in df[df["only_for_claims"] | df["baseline"]].groupby(QUESTION):
        if not group["baseline"].all():
            yield make_strategy_table(group, ", only for claims")


def make_strategy_tables(df: pd.DataFrame) -> Iterator[Table]:
    """Yield a table, framework x strategy, for each machine, workload, size, scenario and batch.

    If it has more strategies than the quick profile, also yield a table of the quick profile's
    strategies, without what a framework does not have.
    """
    for _, group in df.groupby(QUESTION):
        yield make_strategy_table(group)
        short = select_quick(group)
        if short["baseline"].any() and len(short) < len(group):
            yield make_short_table(short)


def select_quick(group: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the quick profile that the framework supports."""
    is_quick = []
    for scenario, strategy in zip(group["scenario"], group["strategy"]):
        is_quick.append(look_up_strategy(scenario, strategy).quick and "+" not in strategy)
    is_supported = group["status"] != "unsupported"
    return group[is_supported & pd.Series(is_quick, group.index, dtype=bool)]


def make_strategy_table(group: pd.DataFrame, addition: str = "") -> Table:
    """Return the table of one workload, scenario, batch and size: a row per framework and strategy.

    A column of SHARES is there only if one of its values is WORTH_SHOWING. Every row whose status
    is not ok has a note with the reason. `addition` is appended to the title.
    """
    first = group.iloc[0]
    notes = []
    for row in group[group["status"] != "ok"].itertuples():
        notes.append(f"{row.framework} {row.strategy}: {row.status}: {row.reason}")
    notes += describe_recomputation(group)
    columns = select_columns(group, SHOWN)
    for name, column in SHARES.items():
        if (group[name] > WORTH_SHOWING).any():
            columns = {**columns, name: column}
    return Table(
        f"{first['workload']} {first['scenario']}, batch {first['batch']}, size {first['size']}"
        f"{addition}",
        f"{describe_base(group)} {describe_instruments(group)} {describe_measurement(group)} "
        f"{describe_conditions(group)}",
        make_cells(group),
        columns,
        notes=tuple(drop_duplicates(notes)),
        machine=first["machine"],
        cases=tuple(group["case"]),
    )


def describe_recomputation(df: pd.DataFrame) -> list[str]:
    """Return a note on JAX's recomputation on a CPU, if a row with numbers recomputes."""
    is_jax_on_cpu = (df["framework"] == "jax") & (df["device"] == "cpu") & (df["status"] == "ok")
    recomputes = df["strategy"].astype(str).str.contains("checkpoint")
    of_case = ["workload", "scenario", "strategy", "size"]
    for parts in df.loc[is_jax_on_cpu & recomputes, of_case].astype(str).to_numpy():
        if not scans_layers(*parts):
            return [RECOMPUTED_IN_JAX]
    return []


def scans_layers(workload: str, scenario: str, strategy: str, size: str) -> bool:
    """Return whether JAX's recomputed blocks are one scanned layer, so that nothing is merged."""
    if workload not in spec.list_workloads() or scenario != "train":
        return False
    if "checkpoint_every_2" in strategy:
        return False
    model = spec.load_workload(workload)
    return model.identical_layers(model.config(size)) > 1


def make_short_table(group: pd.DataFrame) -> Table:
    """Return the table of a few strategies, with few columns and a caption that suits prose."""
    whole = make_strategy_table(group, IN_SHORT)  # its rows have the index of `group`
    is_unproven = (group["status"] == "ok") & ~group["usable"]
    # no column of this table says what is unproven, so that the strategy's name has to
    strategies = group["strategy"].mask(is_unproven, group["strategy"] + " (not proven)")
    return replace(
        whole,
        shown=select_columns(group, SHORT),
        caption=describe_briefly(group),
        data=pd.DataFrame(whole.data).assign(strategy=strategies),
    )


def make_index(df: pd.DataFrame) -> Table:
    """Return the selectors of all tables: a row for each workload, scenario and size."""
    rows = []
    groups = select_in_use(df).groupby(["workload", "scenario", "size"], sort=False)
    for (workload, scenario, size), group in groups:
        batches = ", ".join(map(str, sorted(group["batch"].unique())))
        strategies = str(group["strategy"].nunique())
        with_numbers = f"{group['usable'].sum()} of {len(group)}"
        rows.append((f"{workload}/*/{scenario}/*/*/{size}", batches, strategies, with_numbers))
    head = ("selector", "batches", "strategies", "with numbers")
    caption = "`framebench report SELECTOR` prints a table."
    return Table.of_text("Tables", caption, head, rows, machine=join_values(df["machine"]))


def describe_base(group: pd.DataFrame) -> str:
    """Return a sentence that names the baseline of the ratios."""
    return f"base: {find_baseline(group['scenario'].iloc[0])} of the same framework."


def describe_briefly(group: pd.DataFrame) -> str:
    """Return the caption of a table that stands among prose."""
    first = group.iloc[0]
    machine = f"Machine {first['machine']}, {first['cpu']}.{describe_calibration(group)}"
    return f"{describe_base(group)} {describe_instruments(group)} {machine} {READING}"


def describe_calibration(group: pd.DataFrame) -> str:
    """Return how many rows are of instruments that were not calibrated; "" without any."""
    counts = group["calibration"].value_counts()
    if counts.index.equals(pd.Index(["passed"])) or counts.empty:
        return ""
    states = ", ".join(f"{state} for {counts[state]}" for state in sorted(counts.index))
    return f" Calibration of the instruments, by rows: {states}."


def make_framework_tables(df: pd.DataFrame) -> Iterator[Table]:
    """Yield the baselines of all frameworks side by side, a table for each machine and scenario.

    Frameworks are compared by what a job needs, as in `answer` and README. Peaks are by `host.rss`,
    the one instrument that frameworks share on a CPU.
    """
    base = df[df["baseline"] & df["host_rss_bytes"].notna()].sort_values("measured_at")
    base = base.assign(relative=format_time_ratios(base, "torch_ratio"))
    quantities = read_columns("frameworks", needs_bytes=format_needs)
    for (machine, scenario), group in base.groupby(["machine", "scenario"]):
        # if a framework has several versions, the one measured last counts
        newest = group.drop_duplicates([*PLACE, "framework"], keep="last")
        wide = newest.pivot(index=PLACE, columns="framework", values=list(quantities))
        columns = {name: TableColumn(name) for name in PLACE}
        cells = wide.index.to_frame(index=False)
        for quantity, framework in product(quantities, FRAMEWORKS):
            # the ratio of PyTorch to itself is 1 everywhere
            is_trivial = quantity == "relative" and framework == "torch"
            if (quantity, framework) in wide and not is_trivial:
                key = f"{quantity} {framework}"
                shown = quantities[quantity]
                columns[key] = replace(shown, name=f"{framework} {shown.name}")
                cells[key] = wide[quantity, framework].to_numpy()
        yield Table(
            f"Frameworks side by side, {scenario} ({find_baseline(str(scenario))})",
            "needs: what a budget must have, by which README and `framebench answer` compare, too; "
            "the peak by host.rss lacks what libraries keep, so that it may order frameworks "
            "otherwise. x torch: step time over PyTorch's. "
            f"{describe_measurement(group)} {describe_conditions(group)}",
            cells,
            columns,
            machine=str(machine),
        )


def describe_instruments(df: pd.DataFrame) -> str:
    """Return a sentence about the instruments of the peaks. All rows are of one kind of device."""
    shared = list_instruments(df, "shared_instrument")
    if not is_on_gpu(df):
        return f"Peaks by {shared}."
    own = list_instruments(df, "step_instrument")
    return (
        f"MiB on the GPU by {shared}, with the context and the framework's pool; in use by {own}."
    )


def list_instruments(df: pd.DataFrame, column: str) -> str:
    """Return the instruments that a column names."""
    return join_values(df[column]) or "no instrument"


def join_values(values: pd.Series) -> str:
    """Return the different values in order, without the missing ones."""
    return ", ".join(sorted(values.dropna().astype(str).unique()))


def describe_conditions(df: pd.DataFrame) -> str:
    """Return the machine, threads, versions and days of the rows, in a sentence."""
    if df.empty:
        return "Nothing was measured."
    names = ["machine", "cpu", "device", "threads", "core", "calibration"]
    common = {name: join_values(df[name]) or "unknown" for name in names}
    commits = df["commits"].fillna("unknown").str.split().explode().str[:10]
    references = ""
    for workload, rows in df.groupby("workload"):
        references += describe_references(str(workload), rows["case"].unique())
    return (
        f"Machine {common['machine']} ({common['cpu']}, device {common['device']}), "
        f"threads {common['threads']}, core {common['core']}; "
        f"calibration {common['calibration']}; {list_releases(df)}; "
        f"measured {describe_days(df['measured_at'])} at {join_values(commits)}.{references}"
    )


def list_releases(df: pd.DataFrame) -> str:
    """Return the frameworks with their versions, such as `jax 0.10.2, torch 2.13.0`."""
    # a process that died early could not name its version
    named = df.dropna(subset=["framework", "framework_version"])
    releases = named["framework"].astype(str) + " " + named["framework_version"].astype(str)
    return join_values(releases)


def describe_days(moments: pd.Series) -> str:
    """Return the days from the first to the last moment, such as `2026-11-27 to 2026-11-29`."""
    first, last = moments.min(), moments.max()
    return format_span(f"{first:%Y-%m-%d}", f"{last:%Y-%m-%d}")


def describe_references(workload: str, cases: Iterable[str]) -> str:
    """Return a sentence if one framework alone made reference values of the cases, or else ""."""
    if workload not in spec.list_workloads():  # a user's model, by its own name
        return ""
    loaded = spec.load_workload(workload)
    # of many workloads one framework made every reference, and no strategy need be named
    is_whole_workload = loaded.unconfirmed.keys() == loaded.golden.keys()
    makers = {}  # by the workload, or by a strategy of it
    for case in map(Case.from_id, cases):
        if case.is_known and case.golden_key in loaded.unconfirmed:
            name = workload
            if not is_whole_workload:
                name += f" {case.strategy}"
            makers[name] = loaded.unconfirmed[case.golden_key]
    text = ""
    for name in sorted(makers):
        text += f" References of {name}: {makers[name]}."
    return text


def describe_measurement(df: pd.DataFrame) -> str:
    """Return how the rows were measured: precision, blocks, and the commands that did it."""
    commands = set()
    for typed in df["command"].unique():
        # what was started as `python -m framebench.cli` has the name of its file
        command = typed.replace("__main__.py ", "framebench ", 1)
        commands.add(shorten(command, 100, placeholder=" ..."))
    measured_by = ", ".join(sorted(commands))
    if len(commands) > MANY_COMMANDS:
        measured_by = f"{len(commands)} commands, which the records name"
    precisions = describe_precisions(str(df["scenario"].iloc[0]), df["strategy"])
    return (
        f"{precisions} Protocol {join_values(df['protocol'])}. {describe_timing(df)} "
        f"Measured by {measured_by}.{describe_missing_kept(df)}"
    )


def describe_missing_kept(df: pd.DataFrame) -> str:
    """Return whose needs lack what a process keeps, which no search has measured, or ""."""
    is_missing_kept = df["needs_bytes"].notna() & df["kept_bytes"].isna()
    frameworks = join_values(df["framework"][is_missing_kept])
    text = describe_guessed_needs(df)
    lenders = describe_lenders(df["kept_lender"].dropna())
    if lenders:
        text += f" {lenders}."
    if not frameworks:
        return text
    return (
        f"{text} needs of {frameworks}: at least so much, since no search has measured what a "
        "process keeps next to its peak (framebench max-batch does)."
    )


def describe_guessed_needs(df: pd.DataFrame) -> str:
    """Return of which strategies alone the needs are no guess by other strategies, or ""."""
    is_guess = df["least_needs_bytes"] < df["needs_bytes"]
    if not is_guess.any():
        return ""
    is_searched = df["needs_bytes"].notna() & ~is_guess
    except_for = ""
    if is_searched.any():
        except_for = f" but for {join_values(df.loc[is_searched, 'strategy'])}"
    return (
        f" needs{except_for}: up to so much, since no search has run the strategy, and what its "
        "process keeps is the most that was seen with others."
    )


def describe_timing(df: pd.DataFrame) -> str:
    """Return a pointer to how rows are measured, and the number of rows without times."""
    measured = df[df["status"] == "ok"]
    without = int(measured["step_time_s"].isna().sum())
    if not without:
        return READING
    return f"{READING} {without} of {len(measured)} rows were measured {WITHOUT}."
