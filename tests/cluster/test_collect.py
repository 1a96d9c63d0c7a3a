"""Records of several folders in one: each once, none lost, nothing changed in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
OTHER = HARDWARE | {"cpu": "y"}


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


def count_outcomes(report: CollectionReport) -> tuple[int, int, int, int]:
    """Return how many were added, present, in conflict and unreadable."""
    added, unreadable = len(report.added), len(report.unreadable)
    return added, report.present, len(report.conflicts), unreadable


def test_collecting_again_adds_nothing(tmp_path):
    folders = []
    for name in ("one", "two"):
        folders.append(make_folder(tmp_path / name, machine=name, session=name))
    once, together = tmp_path / "once", tmp_path / "together"

    assert count_outcomes(collect(folders, once)) == (6, 0, 0, 0)
    assert count_outcomes(collect(folders[::-1], once)) == (0, 6, 0, 0)
    assert count_outcomes(collect([once, *folders], together)) == (6, 6, 0, 0)

    assert len(read_records(once)) == len(read_records(together)) == 6


def test_equal_machines_have_one_name_and_are_still_told_apart(tmp_path):
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


def test_a_node_keeps_its_name_however_often_its_machine_is_renamed(tmp_path):
    collect([make_folder(tmp_path / "n1", "n1")], tmp_path / "one", "kind")
    collect([tmp_path / "one"], tmp_path / "other", "another")
    origins = [record.provenance for record in read_records(tmp_path / "other")]
    assert {(origin.machine, origin.node) for origin in origins} == {("another", "n1")}


def test_a_machine_keeps_its_name_next_to_others_of_its_kind(tmp_path):
    into = tmp_path / "all"
    for session in ("1", "2"):
        make_folder(into, "a", session=session)
    make_folder(into, "b", session="3")
    report = collect([make_folder(tmp_path / "new", "b", session="4")], into)
    assert report.machines.keys() == {"b"}


def test_two_processes_of_one_case_in_a_block_are_two_records(tmp_path):
    add_records(tmp_path / "a", *make_blocks([(CASE, [[1.0]]), (CASE, [[1.0]])]))
    assert count_outcomes(collect([tmp_path / "a"], tmp_path / "all")) == (2, 0, 0, 0)


@pytest.mark.parametrize("release", ["torch-\x1b[2J", "torch-1\n", "torch-" + "9" * 100])
def test_a_strangers_name_of_a_release_names_no_file(release, tmp_path):
    store.append(record(CASE), store.find_file(tmp_path / "a", "m", release))
    report = collect([tmp_path / "a"], tmp_path / "all")
    assert count_outcomes(report) == (0, 0, 0, 1)
    assert list_files(tmp_path / "all") == []


def list_machines(root: Path) -> set[str]:
    """Return the machines that a folder has records of."""
    return {record.provenance.machine for record in read_records(root)}


def test_equal_machines_stay_apart_where_they_are_to_be_compared(tmp_path):
    first = make_folder(tmp_path / "alpha", "alpha", session="1")
    second = make_folder(tmp_path / "beta", "beta", session="2")
    results = ("--results", tmp_path / "all")

    done = framebench("collect", first, second, *results)
    assert done.stderr.startswith(
        "machine alpha has the records of alpha, beta; of equal hardware, they count as one machine"
    )
    assert list_machines(tmp_path / "all") == {"alpha"}

    done = framebench("collect", first, second, "--results", tmp_path / "two", "--apart")
    assert done.stderr == "", "nothing is said of machines that keep their names"
    assert list_machines(tmp_path / "two") == {"alpha", "beta"}
    for source in (first, second):  # what is there keeps its name
        assert count_outcomes(collect([source], tmp_path / "two", apart=True)) == (0, 3, 0, 0)

    framebench("collect", first, *results, "--apart", "--machine", "m", code=2)


def test_a_given_name_stays_next_to_an_equal_machine(tmp_path):
    for name in ("alpha", "beta"):
        collect([make_folder(tmp_path / name, "localhost", session=name)], tmp_path / "all", name)
    assert list_machines(tmp_path / "all") == {"alpha", "beta"}
    other = make_folder(tmp_path / "other", "localhost", OTHER, session="other")
    collect([other], tmp_path / "all", "beta")
    assert list_machines(tmp_path / "all") == {"alpha", "beta", f"beta-{hash_hardware(OTHER)}"}


def test_two_kinds_of_machine_of_one_name_are_two(tmp_path):
    one = make_folder(tmp_path / "a", "localhost")
    other = make_folder(tmp_path / "b", "localhost", OTHER)

    for expected in ((6, 0, 0, 0), (0, 6, 0, 0)):
        assert count_outcomes(collect([one, other], tmp_path / "all")) == expected

    cpus = {}
    for collected in read_records(tmp_path / "all"):
        cpus[collected.provenance.machine] = collected.provenance.hardware["cpu"]
    assert cpus == {"localhost": "x", f"localhost-{hash_hardware(OTHER)}": "y"}


def test_a_machine_whose_hardware_changes_keeps_its_name(tmp_path):
    """A host may change what it shows of a machine: its instructions, or a part of its memory."""
    source = make_folder(tmp_path / "a", "m", session="1")
    make_folder(source, "m", OTHER, session="2")
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
        done = framebench("collect", one, other, results=tmp_path / "all")

        assert done.returncode == 1
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
    assert count_outcomes(report) == (3, 0, 0, 3)
    for fault in ("a record of torch, but under jax-1", "a record of the machine m, but in the"):
        assert any(fault in sentence for sentence in report.unreadable)


def test_records_in_files_of_their_own_are_collected(tmp_path):
    """Old versions of framebench wrote each record into a file of its own."""
    records = read_records(make_folder(tmp_path / "made", "m"))
    old = tmp_path / "old"
    folder = old / "records" / "m" / "torch-1" / CASE.id.replace("/", ".")
    folder.mkdir(parents=True)
    for number, one in enumerate(records):
        (folder / f"2026010{number}.json").write_text(one.model_dump_json())
    (folder / "20270101.json").write_text("{")
    (folder / "20270102.json").symlink_to(folder / "20260100.json")
    added, present, in_conflict, unreadable = 3, 0, 0, 2

    into_another = collect([old], tmp_path / "all")
    into_itself = collect([old], old)
    again = collect([old], old)

    assert count_outcomes(into_another) == (added, present, in_conflict, unreadable)
    assert count_outcomes(into_itself) == (added, present, in_conflict, unreadable)
    assert count_outcomes(again) == (0, added, in_conflict, unreadable)
    assert read_records(tmp_path / "all") == records


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


def test_a_name_that_leaves_the_folder_is_refused(tmp_path):
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
def test_machines_of_one_kind_have_one_fingerprint(change, is_same):
    assert (hash_hardware(HARDWARE | change) == hash_hardware(HARDWARE)) is is_same


def test_searches_and_probes_are_collected_once_under_the_machines_name(tmp_path):
    node = make_folder(tmp_path / "node", "node1")
    kind = tmp_path / "kind"
    origin = provenance(machine="node1", hardware=HARDWARE)
    probed = Probed(probe="names", names={"torch.amp": True}, provenance=origin)
    store.append(probed, node / "claims" / "node1.jsonl")
    search = Fit(case=CASE.id, budget_bytes=2**20, status="none", answer="none", provenance=origin)
    old_file = node / "fits/node1/torch-1/a.case/20260101.json"  # of an older version
    store.write_atomically(search.model_dump_json(indent=1), old_file)
    assert collect([node], kind, "kind").answers == 2
    assert collect([node], kind, "kind").answers == 0
    collected = origin.model_copy(update={"machine": "kind", "node": "node1"})
    ((_, collected_probe),) = store.read_answers(Probed, kind / "claims")
    assert collected_probe == probed.model_copy(update={"provenance": collected})
    (collected_search,) = load_searches(kind)
    assert collected_search == search.model_copy(update={"provenance": collected})
