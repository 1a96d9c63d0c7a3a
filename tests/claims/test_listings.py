"""What articles print, run today: each file says what its record says, and a listing that does not
run ends with its error.
"""

from __future__ import annotations

import re
from operator import attrgetter

import pytest

from framebench.claims.measure import LISTINGS, REPORTS, find_framework, run_program
from framebench.claims.probed_record import Probed
from framebench.claims.registry import REGISTRY
from framebench.claims.store import SNIPPET
from framebench.records.store import read_answers
from tests.processes import ROOT

# beside counts
INEXACT = {
    "torch_monitor": {"readings", "rounds"},
    "jittor_optimizer_backward": {"relative_error", "relative_error_with_norm"},
    # what a kernel takes, and which kernels there are, is the processor's
    "torch_prune": {"peak", "peak_masked", "peak_zeros", "peak_removed"},
    "torch_batch_norm_update": {
        "norm_updated",
        "norm_frozen",
        "no_norm_updated",
        "no_norm_frozen",
    },
    "torch_compile": {"operators", "kernels", "operators_of_matmuls", "kernels_of_matmuls"},
    "torch_half_autocast": {"most", "most_alone"},
    "torch_batch_norm_3d": {"plain", "normed"},
}


def list_programs() -> set[str]:
    """Return the programs of all listings and reports, by the name of their results."""
    programs = {f"{SNIPPET}{path.stem}" for path in LISTINGS.glob("*.py")}
    for path in REPORTS.glob("*.py"):
        framework = path.stem.partition("_")[0]
        for number in re.findall(r'^    "(\d+)": |^REPORTS.*{"(\d+)": ', path.read_text(), re.M):
            programs.add(f"report-{framework}-{''.join(number)}")
    return programs


def test_every_program_belongs_to_a_claim():
    programs_of_claims = set()
    for claim in REGISTRY.claims:
        for measurement in claim.measurements:
            if measurement.measure.probe:
                programs_of_claims.add(measurement.measure.probe)
    assert programs_of_claims == list_programs()


# what `make test` runs; the others repeat it for other claims
OFTEN = ("torch_amp", "torch_checkpoint", "torch_halve_batch")
TRIED = []
for path in sorted(LISTINGS.glob("*.py")):
    marks = () if path.stem in OFTEN else pytest.mark.all_cases
    TRIED.append(pytest.param(path, marks=marks, id=path.stem))


RECORDED = [probed for _, probed in read_answers(Probed, ROOT / "results" / "claims")]


@pytest.mark.slow
@pytest.mark.usefixtures("imported_once")
@pytest.mark.parametrize("snippet", TRIED)
def test_a_listing_still_behaves_as_recorded(snippet, environment):
    probe = f"{SNIPPET}{snippet.stem}"
    numbers, error = run_program(environment[find_framework(probe)], snippet)
    assert bool(numbers) != bool(error)
    recorded = [probed for probed in RECORDED if probed.probe == probe]
    assert recorded, "framebench claims --run"
    record = max(recorded, key=attrgetter("provenance.measured_at"))
    assert record.error == error
    assert record.found.keys() == numbers.keys()
    for name, value in numbers.items():
        if name not in INEXACT.get(snippet.stem, ()):
            assert value == record.found[name][0], name


def test_errors_contain_no_local_paths(environment, tmp_path):
    broken = tmp_path / "torch_broken.py"
    broken.write_text(f"open({str(tmp_path / 'not there')!r})\n")
    numbers, error = run_program(environment["torch"], broken)
    assert (numbers, error.split(":")[0]) == ({}, "FileNotFoundError")
    assert str(tmp_path) not in error
