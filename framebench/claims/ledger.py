"""The ledger: each claim with what was measured, the verdict, and the records behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from framebench.analysis.results import Results
from framebench.claims import wording
from framebench.claims.claim import Claim
from framebench.claims.lines import Line, add_gpu_lines, applies, let_gpus_decide, make_line
from framebench.claims.registry import REGISTRY
from framebench.claims.rule import NOT_MEASURED, UNMET, Verdict, summarize
from framebench.claims.store import NAMES_PROBE, MachineResults
from framebench.records import provenance
from framebench.records.provenance import repeat_results
from framebench.suite.case import DEFAULT_SIZE
from framebench.suite.counting import format_count
from framebench.suite.sequences import drop_duplicates


@dataclass(frozen=True)
class Entry:
    """One claim, or one part of it.

    `value`, `low` and `high` are those of all deciding measurements that have a number: the median,
    and from the lowest end of their intervals to the highest. The names of the fields are those of
    `--json`.
    """

    id: str
    part: str  # such as memory and speed, where the claim is about several
    source: str
    place: str  # where the article says it
    says: str
    verdict: Verdict
    qualifier: str  # what restricts the verdict
    claimed: str
    metric: str
    value: float | None  # of what was measured
    low: float | None
    high: float | None
    form: str
    recommendation: str
    transfers_to_gpu: bool  # whether a CPU's result holds on a GPU too
    why: str  # or why not
    # who disagrees or what is not met, what is missing, and facts from documents
    reasons: tuple[str, ...]
    also_shown: tuple[str, ...]  # informational measurements, in words
    command: str  # what would measure what is missing; empty if nothing is
    records: tuple[str, ...]
    lines: tuple[Line, ...]
    machine: str
    size: str
    protocol: int  # that all was measured under

    @property
    def name(self) -> str:
        """Return `A1`, or `B2 memory`."""
        return f"{self.id} {self.part}".strip()

    @property
    def remark(self) -> str:
        """Return the reasons and the informational measurements, printed below a row."""
        return " ".join((*self.reasons, *self.also_shown))

    @property
    def judged(self) -> str:
        """Return the verdict and its qualifier: `undecided (confirmed or larger than claimed)`."""
        if not self.qualifier:
            return self.verdict
        return f"{self.verdict} ({self.qualifier})"

    @property
    def measured(self) -> str:
        """Return what was measured, with its interval, or `-` if nothing behind the verdict was."""
        return wording.summarize_numbers(self.verdict, self.list_summarized(planned=False))

    @property
    def planned(self) -> str:
        """Return what was planned, with its error, or `-` if nothing behind the verdict was."""
        return wording.summarize_numbers(self.verdict, self.list_summarized(planned=True))

    @property
    def numbers(self) -> str:
        """Return both in words: `measured: -60.8 %; planned: -72.2 % (-78.0 to -65.2)`."""
        texts = {"measured": self.measured, "planned": self.planned}
        present = [f"{origin}: {text}" for origin, text in texts.items() if text != "-"]
        return "; ".join(present) or "measured: -"

    def list_summarized(self, planned: bool) -> list[Line]:
        """Return the planned lines whose numbers are behind the verdict, or the measured ones."""
        numbered = wording.select_numbered(self.lines)
        summarized = wording.select_summarized(self.verdict, numbered)
        return [line for line in summarized if line.planned == planned]


def make_ledger(
    results: Results,
    machine: str,
    size: str = DEFAULT_SIZE,
    ids: Iterable[str] = (),
) -> list[Entry]:
    """Return every claim, or those named, as measured on a machine.

    Records of a GPU at full size are added: the machine's own if it has a GPU, or else those of all
    other machines that have one. Raises UnknownClaim.
    """
    here = MachineResults(results, machine)
    # a GPU's ledger has its own numbers alone; each line of a CPU's names the GPU that it is from
    gpus = []
    if size == DEFAULT_SIZE and not here.is_cpu_only:
        gpus.append(here)
    elif size == DEFAULT_SIZE:
        for name in results.machines:
            if name == machine or not has_gpu(results, name):
                continue
            other = MachineResults(results, name)
            if not other.is_cpu_only and other.protocol == here.protocol:
                gpus.append(other)
    return [make_entry(claim, here, size, gpus) for claim in REGISTRY.select(ids)]


def merge_ledgers(
    results: Results, size: str = DEFAULT_SIZE, ids: Iterable[str] = ()
) -> tuple[list[Entry], str] | None:
    """Return each claim as the first machine has measured it, or else as another machine has.

    The first is this machine, or else one with this processor, if it has records other than those
    of trials. The other is the one with most records among all others. Claims are in the order of
    `make_ledger`. The second result is a sentence that names the machines. Returns None unless both
    machines have results. Raises UnknownClaim.
    """
    processor = provenance.describe_hardware()["cpu"]
    preferred = []
    for name in results.order_machines(processor):
        if results.explain_choice(name, processor) and results.has_more_than_trials(name):
            preferred.append(name)
    others = [name for name in results.machines if name not in preferred[:1]]
    if not preferred or not others:
        return None
    first = preferred[0]
    queries = list(ids)
    entries = make_ledger(results, first, size, queries)
    measured_count = sum(map(is_measured, entries))
    sentence = f"machine {first}, {results.explain_choice(first, processor)}"
    if measured_count < len(entries):
        sentence += (
            f", has measured {measured_count} of {format_count(len(entries), 'claim')}; what it "
            f"has not measured comes from {others[0]}"
        )
        other_entries = make_ledger(results, others[0], size, queries)
        for index, entry in enumerate(entries):
            if not is_measured(entry):
                entries[index] = other_entries[index]
    return entries, f"{sentence} (--machine NAME takes one alone: {', '.join(others)})"


def has_gpu(results: Results, machine: str) -> bool:
    """Return whether any record of a machine was measured on a GPU.

    Looking for one takes a tenth of the time of reading the records in full.
    """
    return any(record.device not in (None, "cpu") for record in results.get_records(machine))


def make_entry(
    claim: Claim, machine: MachineResults, size: str, gpus: Sequence[MachineResults] = ()
) -> Entry:
    """Return a claim as measured on a machine, and at full size by `gpus`."""
    own_lines = []
    for measurement in claim.measurements:
        if applies(measurement, size):
            own_lines.append(make_line(claim, measurement, machine, size))
    lines = let_gpus_decide(add_gpu_lines(claim, own_lines, gpus, machine.machine))
    verdict = judge_claim(claim, machine, lines)
    numbered = wording.select_numbered(lines)
    summarized = wording.select_summarized(verdict, numbered)
    value, low, high = wording.compute_span([line for line in summarized if not line.planned])
    files: list[str] = []
    for line in lines:
        files += line.records
    names_machine = ""
    if claim.absent:
        files += machine.list_files([], NAMES_PROBE)
        names_machine = machine.find_other_machine(NAMES_PROBE)
    return Entry(
        id=claim.id,
        part=claim.part,
        source=claim.source,
        place=str(claim.place or ""),
        says=claim.says,
        verdict=verdict,
        qualifier=wording.qualify(verdict, lines, claim),
        claimed=claim.claimed,
        metric=claim.metric,
        value=value,
        low=low,
        high=high,
        form=numbered[0].form if numbered else "",
        recommendation=wording.choose_advice(claim, lines),
        transfers_to_gpu=claim.transfers_to_gpu,
        why=claim.why,
        reasons=wording.make_reasons(claim, lines, names_machine),
        also_shown=wording.make_informational(lines),
        command=suggest_command(claim, lines, verdict, size, machine.results.root),
        records=tuple(drop_duplicates(files)),
        lines=tuple(lines),
        machine=machine.machine,
        size=size,
        protocol=machine.protocol,
    )


def judge_claim(claim: Claim, machine: MachineResults, lines: Sequence[Line]) -> Verdict:
    """Return the verdict on a claim, by the lines that decide.

    A claim that names are missing from a framework is judged by whether a look-up found them
    instead. One that is true by definition is `by definition` unless a measurement speaks against
    it.
    """
    if claim.absent:
        looked_up = machine.get_probe(NAMES_PROBE)
        if looked_up is None or not machine.has_looked_up(claim.absent):
            return NOT_MEASURED
        if not any(looked_up.names[name] for name in claim.absent):
            return "no such API"
    if claim.needs.lacking:
        return UNMET
    verdict = summarize([line.verdict for line in lines if line.decides], claim.may)
    if claim.definition and verdict in ("confirmed", NOT_MEASURED):
        return "by definition"
    return verdict


def suggest_command(
    claim: Claim, lines: Sequence[Line], verdict: Verdict, size: str, results: Path
) -> str:
    """Return the command that measures what a claim lacks on this machine, into this folder.

    It is "" if nothing is missing, if all that is missing was tried and failed, or if the suite
    cannot test the claim.
    """
    if claim.needs.lacking:
        return ""
    missing = [line for line in lines if line.decides and line.verdict == NOT_MEASURED]
    if all(line.was_tried for line in missing) and (missing or verdict != NOT_MEASURED):
        return ""
    command = f"framebench claims {claim.id} --run"
    if size != DEFAULT_SIZE:
        command += f" --size {size}"
    return command + repeat_results(results)


def is_measured(entry: Entry) -> bool:
    """Return whether the entry's machine has measured something that is behind the verdict.

    Plans and programs' results of other machines may be behind it too. A claim by definition, or
    with a precondition, has a verdict without any.
    """
    own_files = (f"records/{entry.machine}/", f"claims/{entry.machine}.jsonl")
    has_own_file = any(file.startswith(own_files) for file in entry.records)
    return has_own_file and entry.verdict != NOT_MEASURED


def list_names(claims: Iterable[Claim]) -> tuple[str, ...]:
    """Return every name of an API whose absence the claims assert, each once."""
    names: list[str] = []
    for claim in claims:
        names += claim.absent
    return tuple(drop_duplicates(names))


def as_json(entry: Entry) -> dict[str, Any]:
    """Return the entry for programs.

    `measured`, `low` and `high` are numbers of what was measured; `lines` has each comparison, and
    whether it was measured or planned.
    """
    lines = []
    for line in entry.lines:
        lines.append(asdict(line) | {"measured": line.value, "text": line.measured})
    return asdict(entry) | {
        "measured": entry.value,
        "text": entry.numbers,
        "remark": entry.remark,
        "lines": lines,
    }
