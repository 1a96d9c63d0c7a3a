"""Records of several folders in one: each once, none lost, nothing changed in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from framebench.analysis.searches import load_searches
from framebench.claims.probed_record import Probed
from framebench.cluster.collect import CONFLICTS, NODES, CollectionReport, collect
from framebench.records import store
from framebench.records.provenance import BadMachine, hash_hardware
from framebench.records.record import Record
from framebench.records.search import Fit
from tests.fake_records import CASE, make_blocks, provenance, record
from tests.processes import framebench
from tests.record_files import add_records, append_lines, change_line, list_files

HARDWARE: dict[str, Any] = {
    "cpu": "x",
    "cores": 2,
    "memory_bytes": 2**34,
    "system": "Linux 6.1 x86_64",
    "libc": "glibc 2.36",
}
OTHER_HARDWARE = HARDWARE | {"cpu": "y"}


def make_folder(
    folder: Path, machine: str, hardware: dict[str, Any] = HARDWARE, session: str = "s"
) -> Path:
    """Return a results folder with three records of a machine."""
    variants = [(CASE, [[1.0]] * 3)]
    made = make_blocks(variants, machine=machine, hardware=hardware, session=session)
    add_records(folder, *made)
    return folder


def read_records(root: Path) -> list[Record]:
    """Return the records of a folder."""
    return list(store.read_all(root))


class Outcomes(NamedTuple):
    """How many records a collection found of each kind."""

    added: int = 0
    present: int = 0
    conflicts: int = 0
    unreadable: int = 0


def count_outcomes(report: CollectionReport) -> Outcomes:
    return Outcomes(
        added=len(report.added),
        present=report.present,
        conflicts=len(report.conflicts),
        unreadable=len(report.unreadable),
    )


def test_collecting_the_same_folders_again_adds_nothing(tmp_path):
    into = tmp_path / "all"
    one = make_folder(tmp_path / "one", "one", session="one")
    two = make_folder(tmp_path / "two", "two", session="two")

    assert count_outcomes(collect([one, two], into)) == Outcomes(added=6)
    assert count_outcomes(collect([two, one], into)) == Outcomes(present=6)

    assert len(read_records(into)) == 6


def test_equal_machines_have_one_name_and_their_records_name_the_node(tmp_path):
    into = tmp_path / "all"
    first = make_folder(tmp_path / "n1", "n1", session="1")
    second = make_folder(tmp_path / "n2", "n2", session="2")
    third = make_folder(tmp_path / "n3", "n3", session="3")

    report = collect([first, second], into, "kind")

    assert report.machines == {"kind": {"n1", "n2"}}
    origins = [record.provenance for record in read_records(into)]
    assert {origin.machine for origin in origins} == {"kind"}
    assert {origin.node for origin in origins} == {"n1", "n2"}
    later = collect([third], into)
    assert later.machines.keys() == {"kind"}, "the name that was given once is kept"


@pytest.mark.parametrize("release", ["torch-\x1b[2J", "torch-1\n", "torch-" + "9" * 100])
def test_records_under_a_release_name_that_is_unsafe_as_a_file_are_unreadable(release, tmp_path):
    store.append(record(CASE), store.find_file(tmp_path / "a", "m", release))
    report = collect([tmp_path / "a"], tmp_path / "all")
    assert count_outcomes(report) == Outcomes(unreadable=1)
    assert list_files(tmp_path / "all") == []


def list_machines(root: Path) -> set[str]:
    """Return the machines that a folder has records of."""
    return {record.provenance.machine for record in read_records(root)}


@pytest.fixture
def equal_machines(tmp_path) -> list[Path]:
    """Return the folders of two machines of equal hardware, alpha and beta."""
    alpha = make_folder(tmp_path / "alpha", "alpha", session="1")
    beta = make_folder(tmp_path / "beta", "beta", session="2")
    return [alpha, beta]


def test_equal_machines_are_one_machine_by_default(equal_machines, tmp_path):
    done = framebench("collect", *equal_machines, results=tmp_path / "all")
    assert done.stderr.startswith(
        "machine alpha has the records of alpha, beta; of equal hardware, they count as one machine"
    )
    assert list_machines(tmp_path / "all") == {"alpha"}


def test_equal_machines_keep_their_names_with_apart(equal_machines, tmp_path):
    done = framebench("collect", *equal_machines, "--apart", results=tmp_path / "all")
    assert done.stderr == "", "no machine was renamed, so nothing is printed"
    assert list_machines(tmp_path / "all") == {"alpha", "beta"}
    for folder in equal_machines:
        again = collect([folder], tmp_path / "all", apart=True)
        assert count_outcomes(again) == Outcomes(present=3), "it has the name that is there"


def test_a_given_name_that_other_hardware_has_gets_the_hash_of_the_hardware(tmp_path):
    collect([make_folder(tmp_path / "x", "localhost", session="x")], tmp_path / "all", "beta")
    on_other = make_folder(tmp_path / "y", "localhost", OTHER_HARDWARE, session="y")
    collect([on_other], tmp_path / "all", "beta")
    renamed = f"beta-{hash_hardware(OTHER_HARDWARE)}"
    assert list_machines(tmp_path / "all") == {"beta", renamed}


def test_machines_of_one_name_and_different_hardware_are_two(tmp_path):
    one = make_folder(tmp_path / "a", "localhost")
    other = make_folder(tmp_path / "b", "localhost", OTHER_HARDWARE)

    first_time = collect([one, other], tmp_path / "all")
    again = collect([one, other], tmp_path / "all")

    assert count_outcomes(first_time) == Outcomes(added=6)
    assert count_outcomes(again) == Outcomes(present=6)
    cpus = {}
    for collected in read_records(tmp_path / "all"):
        cpus[collected.provenance.machine] = collected.provenance.hardware["cpu"]
    assert cpus == {"localhost": "x", f"localhost-{hash_hardware(OTHER_HARDWARE)}": "y"}


def test_a_machine_whose_hardware_changes_keeps_its_name(tmp_path):
    """A host may change what it shows of a machine: its instructions, or a part of its memory."""
    source = make_folder(tmp_path / "a", "m", session="1")
    make_folder(source, "m", OTHER_HARDWARE, session="2")
    collect([source], tmp_path / "all")
    collected = read_records(tmp_path / "all")
    assert [record.provenance.machine for record in collected] == ["m"] * 6


def test_conflicting_records_are_set_aside(tmp_path):
    one, other = make_folder(tmp_path / "a", "m"), make_folder(tmp_path / "b", "m")
    (file,) = list_files(other)

    def halve_times(fields: dict[str, Any]) -> None:
        fields["step_s"] = [0.5] * len(fields["step_s"])

    change_line(f"{file}:2", halve_times)
    for _ in range(2):  # the conflict is one, however often it is collected
        done = framebench("collect", one, other, results=tmp_path / "all", code=1)

        assert "says another step_s than" in done.stderr
        collected = read_records(tmp_path / "all")
        assert [record.step_s[0] for record in collected] == [1.0] * 3
        (set_aside,) = (tmp_path / "all" / CONFLICTS).iterdir()
        assert store.read(set_aside).step_s[0] == 0.5


def test_unreadable_records_are_named_and_the_rest_collected(tmp_path):
    source = make_folder(tmp_path / "a", "m")
    append_lines(store.find_file(source, "m", "torch-1"), "{")
    store.append(record(CASE), store.find_file(source, "m", "jax-1"))
    store.append(record(CASE), store.find_file(source, "other", "torch-1"))
    report = collect([source], tmp_path / "all")
    assert count_outcomes(report) == Outcomes(added=3, unreadable=3)
    for fault in ("a record of torch, but under jax-1", "a record of the machine m, but in the"):
        assert any(fault in sentence for sentence in report.unreadable)


def test_folders_of_a_run_on_many_machines_are_collected_into_it(tmp_path):
    for name in ("n1", "n2"):
        make_folder(tmp_path / NODES / name, name, session=name)
    command = ("collect", tmp_path, "--results", tmp_path)
    assert "6 records added, 0 known" in framebench(*command).stdout
    assert "0 records added, 6 known" in framebench(*command).stdout


def test_a_folder_without_records_is_named(tmp_path):
    inside = make_folder(tmp_path / "a", "m") / "records"
    done = framebench("collect", inside, results=tmp_path / "all", code=1)
    assert f"{inside}: no records to collect; name a folder that has records/" in done.stderr


def test_a_machine_name_that_leads_out_of_the_folder_is_refused(tmp_path):
    with pytest.raises(BadMachine):
        collect([make_folder(tmp_path / "a", "m")], tmp_path / "all", "../../elsewhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "all"]
    assert not list((tmp_path / "all").rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"memory_bytes": 2**34 - 2**27}, True),
        ({"libc": "glibc 2.40", "system": "Linux 6.9 x86_64"}, True),
        ({"system": "Linux 6.1 aarch64"}, False),
        ({"memory_bytes": 2**35}, False),
        ({"gpus": ["H100"]}, False),
    ],
)
def test_the_hash_of_hardware_passes_over_system_versions_and_a_little_memory(change, is_same):
    assert (hash_hardware(HARDWARE | change) == hash_hardware(HARDWARE)) is is_same


def test_searches_and_probes_are_collected_once_under_the_new_name_of_the_machine(tmp_path):
    node = make_folder(tmp_path / "node", "node1")
    kind = tmp_path / "kind"
    origin = provenance(machine="node1", hardware=HARDWARE)
    probed = Probed(probe="names", names={"torch.amp": True}, provenance=origin)
    store.append(probed, node / "claims" / "node1.jsonl")
    search = Fit(case=CASE.id, budget_bytes=2**20, status="none", answer="none", provenance=origin)
    store.append(search, node / "fits" / "node1" / "torch-1.jsonl")
    first_time = collect([node], kind, "kind")
    again = collect([node], kind, "kind")
    assert first_time.answers == 2
    assert again.answers == 0
    collected = origin.model_copy(update={"machine": "kind", "node": "node1"})
    ((_, collected_probe),) = store.read_answers(Probed, kind / "claims")
    assert collected_probe == probed.model_copy(update={"provenance": collected})
    (collected_search,) = load_searches(kind)
    assert collected_search == search.model_copy(update={"provenance": collected})
