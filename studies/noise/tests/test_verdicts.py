"""The study of how often verdicts err: on made-up records whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case
from studies.noise import verdicts
from tests.fake_records import CASE, make_blocks

MIB = 2**20
SPINS, EXTRAS = (0.03, 0.05, 0.10, 0.20), (0.01, 0.02, 0.05)
OTHER = Case("transformer", "jax", "train", "fp32", 4, "tiny")


def measured(case: Case, spread: float, seed: int) -> list[Record]:
    """Blocks of four equal variants and one for each slowdown; then one of four equal processes and
    one for each share of more memory.
    """
    rng, slow, large = np.random.default_rng(seed), [*[0.0] * 4, *SPINS], [*[0.0] * 4, *EXTRAS]
    times = [
        (1 + spin) * np.exp(rng.normal(0, spread, (5, 1)) + rng.normal(0, 0.01, (5, 8)))
        for spin in slow
    ]
    peaks = [round(100 * MIB * (1 + extra)) for extra in large]
    timed = make_blocks([(case, variant.tolist()) for variant in times])
    held = make_blocks([(case, [[1.0]]) for _ in large], peaks=peaks)
    return [*planted(timed, "study", "spin", slow), *planted(held, "study-memory", "extra", large)]


def planted(found: list[Record], group: str, what: str, shares: list[float]) -> list[Record]:
    made = []
    for r in found:
        assert r.turns
        turns = r.turns.model_copy(update={"block": f"s/{group}/{r.case}/{r.turns.block}"})
        share = shares[r.turns.arm]
        origin = r.provenance.model_copy(update={"planted": {what: share} if share else {}})
        made.append(r.model_copy(update={"turns": turns, "provenance": origin}))
    return made


def test_each_pair_is_compared_once_and_equal_ones_share_no_process() -> None:
    found = list(verdicts.compare_variants("quiet", measured(CASE, 0.005, 0)))
    by = {
        (p.quantity, p.planted): [
            q for q in found if (q.quantity, q.planted) == (p.quantity, p.planted)
        ]
        for p in found
    }
    assert {key: len(own) for key, own in by.items()} == {
        ("step time", 0.0): 2,
        ("peak memory", 0.0): 2,
        **{("step time", s): 1 for s in SPINS},
        **{("peak memory", s): 1 for s in EXTRAS},
    }
    assert all(p.verdict.blocks == 5 for p in found if p.quantity == "step time")
    for p in found:
        assert p.verdict.ratio == pytest.approx(1 + p.planted, abs=0.02)


def test_what_is_planted_is_found_and_nothing_else() -> None:
    found = [
        p
        for seed, case in enumerate((CASE, OTHER))
        for p in verdicts.compare_variants("quiet", measured(case, 0.002, seed))
    ]
    assert {(p.quantity, p.planted) for p in found if p.is_found} >= {
        ("step time", 0.05),
        ("step time", 0.10),
        ("step time", 0.20),
        ("peak memory", 0.02),
        ("peak memory", 0.05),
    }
    assert not [p for p in found if p.is_found and not p.planted]
    assert {p.framework for p in found} == {"torch", "jax"}


def test_noise_is_undecided_and_no_alarm() -> None:
    found = [
        p
        for seed in range(10)
        for p in verdicts.compare_variants("loaded", measured(CASE, 0.3, seed))
    ]
    equal = [p for p in found if p.quantity == "step time" and not p.planted]
    assert sum(p.is_found for p in equal) <= stats.binom.ppf(0.999, len(equal), 0.05)
    assert all(p.verdict.verdict == "undecided" for p in equal if not p.is_found)


def test_the_table_has_exact_intervals() -> None:
    found = [
        p
        for seed in range(3)
        for p in verdicts.compare_variants("quiet", measured(CASE, 0.002, seed))
    ]
    rows = {(row[0], row[2]): row for row in verdicts.show_rates(found).rows}
    row = rows["step time", "+10%"]
    assert row[3:8] == ("3", "3", "100%", "29% to 100%", "at least 90%"), (
        "Clopper and Pearson's for 3 of 3"
    )
    assert rows["step time", "nothing"][3:8] == ("6", "0", "0%", "0% to 46%", "at most 5%")
    (beside,) = verdicts.show_equal_times(found).rows
    assert beside[:3] == ("quiet", "torch", "6")


def test_the_records_are_kept_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "DATA", tmp_path)
    found = measured(CASE, 0.002, 0)
    for r in found:
        store.append(r, store.find_file(tmp_path / "measured", "m", "torch-1"))
    kept = verdicts.gather(tmp_path / "measured", "quiet")
    assert kept.read_bytes() == verdicts.gather(tmp_path / "measured", "quiet").read_bytes()
    assert {name: len(records) for name, records in verdicts.load_records(tmp_path).items()} == {
        "quiet": len(found)
    }
    assert (
        len(
            verdicts.show_rates(
                verdicts.compare_variants("quiet", verdicts.load_records(tmp_path)["quiet"])
            ).rows
        )
        == 9
    )
    assert [c.rows for c in verdicts.comparisons(tmp_path / "nowhere")] == [(), (), ()]
