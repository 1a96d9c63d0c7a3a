"""Advice as tables, sentences and JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

import pandas as pd

from framebench.analysis.frames import Row
from framebench.analysis.needs import (
    MARGIN,
    NOT_IN_BUDGET,
    are_equal_amounts,
    describe_lenders,
    format_guessed_needs,
    format_needs,
)
from framebench.analysis.peaks import STUDIED_REACH
from framebench.analysis.rendering import DETAIL, ESSENTIAL, Table, TableColumn, format_mib
from framebench.analysis.tables import describe_conditions, format_time_ratios
from framebench.budget.advise.advice import (
    BudgetAdvice,
    Candidate,
    Question,
    SortOrder,
    SuggestedChange,
    is_calibrated,
    is_ranked_by_ratio,
)
from framebench.models.spec import load_workload
from framebench.suite.case import Case
from framebench.suite.counting import format_count
from framebench.suite.hypothetical import describe_sample
from framebench.suite.selectors import join_choice

COLUMNS = {
    "framework": TableColumn("framework"),
    "strategy": TableColumn("strategy", priority=ESSENTIAL),
    "batch": TableColumn("batch"),
    "extrapolated": TableColumn("may reach", priority=DETAIL),
    "peak": TableColumn("peak MiB", priority=ESSENTIAL),
    "needs_bytes": TableColumn("needs MiB", format_needs, priority=ESSENTIAL),
    "rate": TableColumn("throughput"),
    "torch_ratio": TableColumn("x torch"),
    "judged_by": TableColumn("judged by", priority=DETAIL),
    "measured_at": TableColumn("measured at", priority=DETAIL),
    "kept_bytes": TableColumn("kept MiB", format_mib, priority=DETAIL),
    "machine": TableColumn("machine", priority=DETAIL),
}
ORDER_TEXTS: dict[SortOrder, str] = {
    "speed": "fastest first",
    "batch": "largest batch first",
    "memory": "least memory first",
}
NOT_CALIBRATED = "not calibrated"  # by instruments whose machine has passed no calibration
MOST_CANDIDATES_SHOWN = 5  # unless all are asked for
NOT_STUDIED = f"how well predictions hold beyond {STUDIED_REACH} times was not studied"
WIDE = 1.05  # the upper end of a peak over the peak, from which on a table shows it
EXTRAPOLATED = (
    "may reach: extrapolated, the largest batch that fits if memory grows on as measured, far "
    f"beyond measured batches; {NOT_STUDIED}"
)
BATCH_NORM = "batch norm sees one micro-batch, or one rank's part, for another gradient"
CAPTION = (
    f"needs: {MARGIN:.2f} x (peak + kept), which the budget must have; of a predicted peak the "
    "upper end counts (docs/reading.md). x torch: step time over PyTorch's baseline."
)
UP_TO = (
    " up to: no search has run the strategy, so that kept is the most that was seen with others, "
    "and less may be enough."
)
BY_RATIO = (
    " Sorted by x torch, which is of blocks that both were in. Throughputs are of different "
    "blocks, between which a machine drifts."
)


def make_tables(advice: BudgetAdvice, show_all: bool = False) -> Iterator[Table]:
    """Yield the tables of candidates.

    There are up to four tables: candidates that fit, those that fit but compute something else,
    those that may fit, and those that are too large, closest first. Unless `show_all` is set, only
    some rows of the first table that has any are yielded (`choose_shown`).
    """
    tables = (
        (advice.fitting, ORDER_TEXTS[find_order(advice)]),
        (
            advice.different_result,
            "another model or another step: what it computes is not what the baseline does",
        ),
        (advice.unsearched, "may fit, no search has tried them"),
        (advice.too_large, "too large, closest first"),
    )
    for candidates, title in tables:
        if not candidates:
            continue
        if show_all:
            yield make_candidate_table(advice, candidates, title)
        else:
            shown = choose_shown(candidates)
            if shown != candidates[: len(shown)]:
                title += ", with the first of each framework"
            yield make_candidate_table(advice, shown, title)
            return


def choose_shown(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the first few candidates, among them the first of each framework, in their order."""
    first_places: dict[str, int] = {}  # by framework
    for place, candidate in enumerate(candidates):
        first_places.setdefault(candidate.case.framework, place)
    chosen = set(first_places.values())
    for place in range(len(candidates)):
        if len(chosen) < MOST_CANDIDATES_SHOWN:
            chosen.add(place)
    return [candidates[place] for place in sorted(chosen)]


def make_candidate_table(
    advice: BudgetAdvice, candidates: Sequence[Candidate], title: str
) -> Table:
    """Return a table of these candidates; `title` says which they are, or how they are sorted."""
    question = advice.question
    batch = f"batch {question.batch}" if question.batch else "largest batch"
    cases = f"{question.workload} {question.scenario}, {batch}, size {question.size}"
    caption = CAPTION
    all_fitting = advice.fitting + advice.different_result
    if find_order(advice) == "speed" and is_ranked_by_ratio(all_fitting):
        caption += BY_RATIO
    conditions = describe_conditions(pd.DataFrame([vars(c.evidence) for c in candidates]))
    if any(candidate.peak.is_kept_borrowed for candidate in candidates):
        caption += UP_TO
    rows = [make_table_row(candidate, advice.machine) for candidate in candidates]
    columns = COLUMNS
    if find_order(advice) == "batch":  # then rows are sorted by what they may reach
        columns = COLUMNS | {"extrapolated": TableColumn("may reach", priority=ESSENTIAL)}
    return Table(
        f"{cases}, within {format_mib(question.budget)} MiB: {title}",
        f"{caption} {describe_machines(candidates, advice.machine)} {conditions}",
        pd.DataFrame(rows, columns=list(columns)),
        columns,
        left=3,
        notes=tuple(list_candidate_notes(candidates)),
        machine=advice.machine,
    )


def describe_machines(candidates: Sequence[Candidate], machine: str) -> str:
    """Return which machine measured the speeds and the peaks of these candidates."""
    if all(candidate.evidence.machine == machine for candidate in candidates):
        return f"Speeds by {machine}."
    return f"Speeds by {machine}, and peaks, unless a row names another machine."


def describe_size(question: Question) -> str:
    """Return the size of the model with that of a sample, such as `size cpu (256 tokens ...)`."""
    shape = question.shape or load_workload(question.workload).config(question.size)
    sample = describe_sample(shape)
    return f"size {question.size} ({sample})" if sample else f"size {question.size}"


def make_table_row(candidate: Candidate, machine: str) -> dict[str, object]:
    """Return the fields of a candidate, and its peak and speed as the texts of the table.

    A number of another batch than the row's, or of another machine than the table's, says so in its
    own cell, since a narrow table leaves out columns. A batch far beyond measured ones stands next
    to the largest of those that fits, which the row is about.
    """
    row: dict[str, object] = {"extrapolated": None}
    speed = candidate.speed
    if candidate.measured_fit:
        row["extrapolated"] = f"about {candidate.case.batch:,}"
        candidate = candidate.measured_fit
    row |= make_candidate_json(candidate)
    row["kept_bytes"] = candidate.peak.kept_bytes or None  # 0 means that it was never measured
    row["needs_bytes"] = format_guessed_needs(candidate.peak.needs, candidate.peak.least_needs)
    row["peak"] = format_peak(candidate)
    if candidate.evidence.machine != machine:
        row["peak"] = f"{row['peak']} on {candidate.evidence.machine}"
    row["rate"] = "not timed"
    if candidate.timed_rows:
        row["rate"] = f"not timed at b{candidate.case.batch}"
    if speed:
        row |= make_speed_cells(speed, candidate.case.batch)
    return row


def format_peak(candidate: Candidate) -> str:
    """Return the peak in MiB, with its interval if it was predicted.

    Far beyond measured batches it has only the upper end, and only one that is far above it: how
    often intervals cover there was not studied, but what the job needs rests on this end.
    """
    peak = candidate.peak
    text = format_mib(peak.value)
    if candidate.is_far:
        is_wide = peak.high is not None and peak.high > WIDE * peak.value
        return f"about {text} to {format_mib(peak.high)}" if is_wide else f"about {text}"
    if peak.low is not None:
        text += f" ({format_mib(peak.low)} - {format_mib(peak.high)})"
    return text


def make_speed_cells(speed: Row, batch: int) -> dict[str, str]:
    """Return the cells of a speed, which name its batch if that is not the `batch` of the row."""
    other_batch = ""
    if speed.batch != batch:
        other_batch = f" at b{speed.batch}"
    rate = format_rate(speed) + other_batch
    if not is_calibrated(speed):
        rate += f" {NOT_CALIBRATED}"
    (ratio,) = format_time_ratios(pd.DataFrame([vars(speed)]), "torch_ratio")
    if speed.torch_ratio is not None:
        ratio += other_batch
    return {"rate": rate, "torch_ratio": ratio, "measured_at": f"b{speed.batch} {speed.size}"}


def describe_faster_batch(speed: Row) -> str:
    """Return the speed of a faster batch in words."""
    remark = "" if is_calibrated(speed) else f", {NOT_CALIBRATED}, so not ranked"
    return f"{format_rate(speed)} at b{speed.batch}{remark}"


def find_order(advice: BudgetAdvice) -> SortOrder:
    """Return by what the candidates that fit are sorted.

    Without any speed it is the batch, or the memory if all are at the batch in question.
    """
    question = advice.question
    if question.by != "speed":
        return question.by
    if any(candidate.throughput for candidate in advice.fitting):
        return "speed"
    return "batch" if question.batch is None else "memory"


def list_candidate_notes(candidates: Sequence[Candidate]) -> Iterator[str]:
    """Yield notes on candidates, each after the candidate's name.

    They are about an unknown batch, a predicted peak, the smallest timed batch, a faster batch, and
    a result that differs from the baseline's.
    """
    if any(candidate.measured_fit for candidate in candidates):
        yield EXTRAPOLATED
    for candidate in candidates:
        case = candidate.case
        if candidate.unknown_batch:
            yield (
                f"{candidate.name}: of batch {candidate.unknown_batch} nothing is known, as it has "
                "one sample in the model at a time: convolutions may take another path then"
            )
        if candidate.peak.kind == "predicted" and not candidate.measured_fit:
            remark = f"; {NOT_STUDIED}" if candidate.is_far else ""
            yield f"{candidate.name} b{case.batch}: predicted, {candidate.peak.method}{remark}"
        smallest = candidate.smallest_timed
        if smallest and not candidate.speed:
            yield (
                f"{candidate.name} b{case.batch}: the smallest batch that was timed is "
                f"b{smallest.batch} ({format_rate(smallest)}); smaller ones may be far slower"
            )
        faster = candidate.find_faster_batch()
        if faster:
            yield f"{candidate.name}: faster at a larger batch: {describe_faster_batch(faster)}"
        if not case.same_mathematics:
            # a strategy that keeps the loss, and still differs, does so through batch norm
            difference = BATCH_NORM if case.strategy_spec.same_loss else case.strategy_spec.summary
            yield f"{candidate.name}: {difference}"


def format_rate(speed: Row) -> str:
    """Return the throughput of a row with its unit."""
    return f"{speed.throughput:,.1f} {speed.unit}/s"


def describe_briefly(candidate: Candidate) -> str:
    """Return a candidate with its batch and its needs."""
    needs = format_guessed_needs(candidate.peak.needs, candidate.peak.least_needs)
    remark = "" if candidate.peak.kind == "measured" else ", predicted"
    return f"{candidate.name} at {describe_batch(candidate)} (needs {needs} MiB{remark})"


def describe_batch(candidate: Candidate) -> str:
    """Return the batch in words; if it is far, the largest measured batch comes first."""
    batch = candidate.case.batch
    if not candidate.is_far:
        return f"batch {batch}"
    condition = f"if memory grows on as measured up to batch {candidate.measured_up_to}"
    if not candidate.measured_fit:
        return f"batch {batch}, {condition}"
    measured_batch = candidate.measured_fit.case.batch
    return f"batch {measured_batch} at least (measured), and about {batch} {condition}"


def describe_answer(advice: BudgetAdvice, options: str = "") -> str:
    """Return the answer in a sentence: what comes first, or what would fit a larger budget.

    `options` are those that a suggested command has to repeat.
    """
    question = advice.question
    if not advice.fitting and advice.unsearched:
        return describe_unsearched(advice, options)
    if not advice.fitting:
        if not advice.too_large:
            return describe_no_candidates(advice)
        hint = "; without a batch, the answer is the largest that fits" if question.batch else ""
        closest = describe_briefly(advice.too_large[0])
        return f"nothing fits. Closest: {closest}, {describe_size(question)}{hint}"
    best = advice.fitting[0]
    budget = f"{format_mib(question.budget)} MiB"
    if best.evidence.device == "cpu":
        budget += " for the job alone, without the libraries"  # `NOT_IN_BUDGET`
    sentences = [
        f"{question.workload} {question.scenario}, {describe_size(question)}, within "
        f"{budget}, by {advice.machine}: {best.name} "
        f"{describe_rank(advice)}.",
        describe_fit(best, advice.machine),
        suggest_search(best, question, options),
        describe_fastest_on_first(advice),
    ]
    if len(advice.fitting) > 1:
        sentences.append(f"{format_count(len(advice.fitting) - 1, 'other fits', 'others fit')}.")
    if advice.unsearched:
        unsearched = format_count(len(advice.unsearched), "other", "others")
        by_framework = count_by_framework(advice.unsearched)
        sentences.append(f"{unsearched} may fit: no search has tried them ({by_framework}).")
        sentences.append(suggest_faster(advice, options))
    sentences += explain_missing_frameworks(advice)
    return " ".join(filter(None, sentences))


def describe_fastest_on_first(advice: BudgetAdvice) -> str:
    """Return what is fastest on the first machine, where another one's speeds are ranked, or "".

    The first machine is this one or has this processor, and timed fewer strategies.
    """
    candidate = advice.fastest_on_first
    if candidate is None or candidate.speed is None or find_order(advice) != "speed":
        return ""
    speed = candidate.speed
    return (
        f"{speed.machine} timed fewer strategies: there {candidate.name} is fastest, "
        f"{format_rate(speed)} at batch {speed.batch}."
    )


def describe_no_candidates(advice: BudgetAdvice) -> str:
    """Return that no record could be advice, with a reason, if any of the batch in question."""
    text = "nothing that computes the same has a record that could be advice"
    if not advice.left_out:
        return text
    batch = f"/b{advice.question.batch}/"
    of_batch = [case for case in advice.left_out if batch in case]
    case = (of_batch or list(advice.left_out))[0]
    reason = advice.left_out[case].removeprefix(f"{case} ")
    return f"{text}, such as {case}: {reason}"


def count_by_framework(candidates: Sequence[Candidate]) -> str:
    """Return how many candidates each framework has, such as `8 torch, 1 jax`."""
    counts = Counter(candidate.case.framework for candidate in candidates)
    return ", ".join(f"{count} {framework}" for framework, count in counts.most_common())


def explain_missing_frameworks(advice: BudgetAdvice) -> Iterator[str]:
    """Yield a sentence for each framework of the question with nothing that fits or may fit."""
    present = {candidate.case.framework for candidate in advice.fitting + advice.unsearched}
    for framework in advice.question.frameworks:
        if framework not in present:
            yield explain_missing(framework, advice)


def explain_missing(framework: str, advice: BudgetAdvice) -> str:
    """Return why nothing of a framework fits or may fit."""
    for candidate in advice.too_large:  # the closest first
        if candidate.case.framework == framework:
            return f"Nothing of {framework} fits; closest: {describe_briefly(candidate)}."
    for candidate in advice.different_result:
        if candidate.case.framework == framework:
            return f"Of {framework} only what computes something else fits (--all shows it)."
    for case_id, reason in advice.left_out.items():
        if case_id.split("/")[1] == framework:
            return f"Of {framework} no record supports advice: {reason}."
    return f"There are no such records of {framework}."


def describe_unsearched(advice: BudgetAdvice, options: str) -> str:
    """Return that nothing is known to fit, with what may fit and the search that tells."""
    question = advice.question
    first, *others = advice.unsearched
    if first.unknown_batch:
        batch = first.unknown_batch
        need = "nothing is known of its need"
    else:
        batch = first.case.batch
        least, most = format_needs(first.peak.least_needs), format_needs(first.peak.needs)
        need = f"its need is a guess, {least} to {most} MiB"
    others_too = f", and so may {format_count(len(others), 'other', 'others')}" if others else ""
    return (
        f"{question.workload} {question.scenario}, {describe_size(question)}: nothing is known to "
        f"fit {format_mib(question.budget)} MiB. {first.name} may at batch {batch}{others_too}: "
        f"{need}. `{make_search_command(first.case, options)} --max-batch {batch}` tells."
    )


def suggest_faster(advice: BudgetAdvice, options: str) -> str:
    """Return a sentence with the fastest candidate that may fit, or "" if none is faster.

    It is faster if the intervals of both do not overlap.
    """
    best = advice.fitting[0]
    if find_order(advice) != "speed" or not advice.unsearched:
        return ""
    candidate = max(advice.unsearched, key=attrgetter("throughput"))
    speed = candidate.speed
    is_slower = candidate.throughput <= best.throughput
    if speed is None or is_slower or do_intervals_overlap(speed, best.speed):
        return ""
    search = f"{make_search_command(candidate.case, options)} --max-batch {candidate.case.batch}"
    return (
        f"If {candidate.name} does, it is faster: {format_rate(speed)} at batch {speed.batch}. "
        f"`{search}` tells."
    )


def make_search_command(case: Case, options: str) -> str:
    """Return the command that searches for a case's largest batch, which ends with `options`."""
    return (
        f"framebench max-batch '{case.workload}/{case.framework}/{case.scenario}/{case.strategy}/"
        f"{case.size}'{options}"
    )


def describe_rank(advice: BudgetAdvice) -> str:
    """Return why the first candidate comes first, such as `is fastest: 9.0 tokens/s`."""
    best, *others = advice.fitting
    order = find_order(advice)
    if order == "speed" and best.speed:
        rank = f"is {describe_fastest(advice.fitting)}: {format_rate(best.speed)}"
        if best.speed.case != best.shown.case.id:
            rank += f", measured at b{best.speed.batch} {best.speed.size}"
        faster = best.find_faster_batch()
        if faster:
            rank += f" ({describe_faster_batch(faster)})"
        return rank
    if advice.question.by == "speed":
        rank = f"comes first ({ORDER_TEXTS[order]}; its speed is not known"
        if best.smallest_timed and not best.speed:
            rank += f" below batch {best.smallest_timed.batch}"
        rank += ")"
    else:
        rank = f"comes first ({ORDER_TEXTS[order]})"
    if order == "batch":
        ties = [c.name for c in others if c.case.batch == best.case.batch]
        if ties:
            rank += f", with as large a batch by {', '.join(ties)}"
    if order == "memory":
        least = best.shown.peak.needs
        ties = [c.name for c in others if are_equal_amounts(c.shown.peak.needs, least)]
        if ties:
            rank += f", with as little by {', '.join(ties)}"
    return rank


def describe_fit(candidate: Candidate, machine: str) -> str:
    """Return at which batch a candidate fits, and whether that was tried, measured or predicted.

    Of a batch far beyond measured ones, the largest measured one that fits is named in its place.
    The machine is named unless it is `machine`, whose answer this is.
    """
    if candidate.measured_fit:
        return describe_fit(candidate.measured_fit, machine)
    batch = candidate.case.batch
    needs_mib = format_guessed_needs(candidate.peak.needs, candidate.peak.least_needs)
    needs = f"needs {needs_mib} MiB"
    on_machine = ""
    if candidate.evidence.machine != machine:
        on_machine = f", on {candidate.evidence.machine}"
    if candidate.is_far:
        return (
            f"Batch {batch} is predicted to fit ({needs}), but the largest batch that was "
            f"measured is {candidate.measured_up_to}, and {NOT_STUDIED}."
        )
    if candidate.judged_by == "search":
        return f"It fits at batch {batch} ({needs}), as tried under an enforced limit{on_machine}."
    if candidate.judged_by == "record":
        return f"It fits at batch {batch} ({needs}), by its measured peak{on_machine}."
    method = candidate.peak.method
    return f"It is predicted to fit at batch {batch} ({needs}{on_machine}): {method}."


def suggest_search(candidate: Candidate, question: Question, options: str) -> str:
    """Return a sentence with the command that tries a candidate, or "" where that adds nothing."""
    command = make_search_command(candidate.case, options)
    if candidate.measured_fit:
        return f"Extrapolated, so does about batch {candidate.case.batch:,}: `{command}` tries it."
    if candidate.judged_by == "record" and not question.batch:
        return f"`{command}` may find a larger batch."
    # a model that is only described cannot be run
    if candidate.judged_by == "prediction" and not question.shape:
        return f"`{command}` tries it, and may find more."
    return ""


def describe_fastest(fitting: Sequence[Candidate]) -> str:
    """Return in words that the first candidate is the fastest, and which may be as fast.

    It is only compared with candidates that have a calibrated speed.
    """
    if len(fitting) == 1:
        return "the only one that fits"
    first, *others = [c for c in fitting if c.throughput]
    if not others:
        return "the only one that fits and was timed"
    text = "fastest"
    if len(others) < len(fitting) - 1:
        text += f" of the {len(others) + 1} that fit and were timed"
    ties = [c.name for c in others if do_intervals_overlap(first.speed, c.speed)]
    if ties:
        text += f", with {' and '.join(ties)} as fast within their intervals"
    return text


def do_intervals_overlap(first: Row | None, second: Row | None) -> bool:
    """Return whether two speeds cannot be told apart: their intervals overlap, at one batch.

    The intervals are those of step times over PyTorch's baseline. Without both there is no overlap.
    """
    if first is None or second is None:
        return False
    if (first.batch, first.size) != (second.batch, second.size):
        return False
    # fewer than three blocks have no interval
    if first.torch_ratio_high is None or second.torch_ratio_high is None:
        return False
    largest_low = max(first.torch_ratio_low or math.inf, second.torch_ratio_low or math.inf)
    smallest_high = min(first.torch_ratio_high, second.torch_ratio_high)
    return largest_low <= smallest_high


def list_notes(
    advice: BudgetAdvice,
    changes: Sequence[SuggestedChange],
    show_all: bool = False,
    options: str = "",
) -> Iterator[str]:
    """Yield the sentences below the tables.

    `options` are those that a suggested command has to repeat.
    """
    question = advice.question
    for change in changes:
        yield describe_change(change, question.budget)
    uncalibrated = [c for c in advice.fitting if c.speed and not is_calibrated(c.speed)]
    if uncalibrated:
        yield (
            f"not ranked by speed: {len(uncalibrated)}, measured before framebench doctor had "
            "passed"
        )
    never_measured = sorted({c.case.framework for c in advice.fitting if not c.peak.kept_bytes})
    if never_measured:
        text = f"memory outside tensors was never measured for {', '.join(never_measured)}"
        if not question.shape:  # a model that is only described cannot be run
            cases = f"{question.workload}/{join_choice(never_measured)}/{question.scenario}"
            command = f"framebench max-batch '{cases}/*/*/{question.size}'{options}"
            text += f": `{command}` measures it under a limit"
        yield text
    rows = [candidate.evidence for candidate in advice.candidates]
    lenders = describe_lenders(row.kept_lender for row in rows)
    if lenders:
        yield lenders
    if any(row.device == "cpu" for row in rows):
        yield NOT_IN_BUDGET
    if show_all:
        for case, why in advice.left_out.items():
            yield f"no advice: {case}: {why}"
    elif (
        len(advice.fitting) > MOST_CANDIDATES_SHOWN
        or advice.different_result
        or advice.unsearched
        or advice.too_large
        or advice.left_out
    ):
        yield "--all also shows the rest"


def describe_change(change: SuggestedChange, budget: int) -> str:
    """Return a change in a sentence, with its cost in time."""
    base, to = change.base, change.to
    fits = "fits already" if base.fits else f"does not fit {format_mib(budget)} MiB"
    start = f"from {describe_briefly(base)}, which {fits}"
    if to is None:
        return f"{start}: no change that was measured makes it fit"
    if to.case == base.case:
        return f"{start}: nothing that fits is faster"
    cost = "a speed that shares no block with it" if to.speed else "a speed that is not known"
    if change.time is not None:
        cost = f"{change.time.text} x its step time (in the same blocks)"
    if to.case.framework != base.case.framework:
        cost += "; in its own framework nothing fits"
    return f"{start}: the cheapest change is to {describe_briefly(to)}, at {cost}"


def make_json(advice: BudgetAdvice, changes: Sequence[SuggestedChange]) -> dict[str, Any]:
    """Return the advice as JSON fields. Sizes are in bytes, times in seconds."""
    question = advice.question
    return {
        "workload": question.workload,
        "scenario": question.scenario,
        "batch": question.batch,
        "size": question.size,
        "budget_bytes": question.budget,
        "machine": advice.machine,
        "fitting": list(map(make_candidate_json, advice.fitting)),
        "changed_mathematics": list(map(make_candidate_json, advice.different_result)),
        "may_fit": list(map(make_candidate_json, advice.unsearched)),
        "too_large": list(map(make_candidate_json, advice.too_large)),
        "changes": list(map(make_change_json, changes)),
        "left_out": advice.left_out,
    }


def make_change_json(change: SuggestedChange) -> dict[str, Any]:
    """Return a change of strategy as JSON fields."""
    return {
        "from": change.base.case.id,
        "fits_already": change.base.fits,
        "to": change.to.case.id if change.to else None,
        "time_ratio": change.time._asdict() if change.time else None,
    }


def make_candidate_json(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as JSON fields, in bytes and seconds.

    `low_bytes` and `high_bytes` are the interval of a prediction. `kept_bytes` is what the process
    holds in addition to the peak. `least_needs_bytes` is less than `needs_bytes` where they are
    what other strategies keep, and a budget between the two may be enough. `judged_by` is what
    decides whether the candidate fits: a search, a record or a prediction. `measured_up_to` is the
    largest batch that has a record, and `far_beyond_measured` says that predictions so far beyond
    it were not studied; `measured_fit` is then the largest batch, measured or tried, that fits.
    """
    measured_fit = candidate.measured_fit
    case, peak, evidence = candidate.case, candidate.peak, candidate.evidence
    fields: dict[str, Any] = {
        "case": case.id,
        "framework": case.framework,
        "framework_version": evidence.framework_version,
        "strategy": case.strategy,
        "batch": case.batch,
        "kind": peak.kind,
        "method": peak.method,
        "instrument": evidence.step_instrument,
        "machine": evidence.machine,
        "peak_bytes": round(peak.value),
        "low_bytes": peak.low,
        "high_bytes": peak.high,
        "kept_bytes": peak.kept_bytes,
        "needs_bytes": peak.needs,
        "least_needs_bytes": peak.least_needs,
        "fits": candidate.fits,
        "judged_by": candidate.judged_by,
        "measured_up_to": candidate.measured_up_to or None,
        "far_beyond_measured": candidate.is_far,
        "measured_fit": measured_fit.case.batch if measured_fit else None,
        "same_mathematics": case.same_mathematics,
        "throughput": None,
    }
    speed = candidate.speed
    if speed:
        fields |= {
            "throughput": speed.throughput,
            "unit": speed.unit,
            "speed_measured_at": speed.case,
            "calibration": speed.calibration,
        }
    return fields
