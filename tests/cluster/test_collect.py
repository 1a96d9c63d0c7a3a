"""Records of several folders in one: each once, none lost, nothing changed in silence."""

from __future__ import annotations

import random
import shutil
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
from tests.fake_records import CASE, blocks, provenance, record
from tests.processes import framebench
from tests.record_files import change_line, list_files, plant

HARDWARE: dict[str, Any] = {
    "cpu": "x",
    "cores": 2,
    "logical_cores": 4,
    "memory_bytes": 2**34,
    "system": "Linux 6.1 x86_64",
    "libc": "glibc 2.36",
}
OTHER = HARDWARE | {"cpu": "y"}


def folder(
    where: Path,
    machine: str,
    hardware: dict[str, Any] = HARDWARE,
    count: int = 3,
    session: str = "s",
) -> Path:
    """A results folder with so many records of a machine."""
    for found in blocks(
        [(CASE, [[1.0]] * count)], machine=machine, hardware=hardware, session=session
    ):
        store.append(found, store.find_file(where, machine, "torch-1"))
    return where


def records(root: Path) -> list[Record]:
    return list(store.read_all(root))


def counts(found: CollectionReport) -> tuple[int, int, int, int]:
    return len(found.added), found.present, len(found.conflicts), len(found.unreadable)


def test_collecting_is_idempotent_and_independent_of_order(tmp_path: Path) -> None:
    folders = [folder(tmp_path / str(i), f"node{i}", session=str(i)) for i in range(4)]
    assert counts(collect(folders, tmp_path / "a")) == (12, 0, 0, 0)
    random.Random(1).shuffle(folders)
    assert counts(collect(folders, tmp_path / "a")) == (0, 12, 0, 0)
    assert counts(collect([tmp_path / "a", *folders], tmp_path / "b", "kind")) == (12, 12, 0, 0)
    assert len(records(tmp_path / "a")) == len(records(tmp_path / "b")) == 12


def test_equal_machines_have_one_name_and_are_still_told_apart(tmp_path: Path) -> None:
    folders = [folder(tmp_path / name, name, session=name) for name in ("n1", "n2")]
    assert dict(collect(folders, tmp_path / "all", "kind").machines) == {"kind": {"n1", "n2"}}
    assert {(r.provenance.machine, r.provenance.node) for r in records(tmp_path / "all")} == {
        ("kind", "n1"),
        ("kind", "n2"),
    }
    collect([folder(tmp_path / "n3", "n3", session="n3")], tmp_path / "all")
    assert {r.provenance.machine for r in records(tmp_path / "all")} == {"kind"}


def test_two_kinds_of_machine_of_one_name_are_two(tmp_path: Path) -> None:
    folders = [folder(tmp_path / "a", "localhost"), folder(tmp_path / "b", "localhost", OTHER)]
    assert counts(collect(folders, tmp_path / "all")) == (6, 0, 0, 0)
    named = {r.provenance.machine: r.provenance.hardware["cpu"] for r in records(tmp_path / "all")}
    assert named == {"localhost": "x", f"localhost-{hash_hardware(OTHER)}": "y"}
    assert counts(collect(folders, tmp_path / "all")) == (0, 6, 0, 0)


def test_conflicting_records_are_set_aside(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "a", "m"), folder(tmp_path / "b", "m")
    (file,) = list_files(other)
    change_line(f"{file}:2", lambda fields: fields.update(step_s=[0.5] * len(fields["step_s"])))
    for _ in range(2):  # the conflict is one, however often it is collected
        done = framebench("collect", str(one), str(other), "--results", str(tmp_path / "all"))
        assert done.returncode == 1
        assert "says another step_s than" in done.stderr
        assert len(records(tmp_path / "all")) == 3
        assert all(set(r.step_s) == {1.0} for r in records(tmp_path / "all"))
        (aside,) = (tmp_path / "all" / CONFLICTS).iterdir()
        assert set(store.read(aside).step_s) == {0.5}


def test_unreadable_records_are_named_and_the_rest_collected(tmp_path: Path) -> None:
    source = folder(tmp_path / "a", "m")
    plant(store.find_file(source, "m", "torch-1"), "{")
    store.append(record(CASE), store.find_file(source, "m", "jax-1"))
    store.append(record(CASE), store.find_file(source, "other", "torch-1"))
    found = collect([source], tmp_path / "all")
    assert counts(found) == (3, 0, 0, 3)
    for fault in ("a record of torch, but under jax-1", "a record of the machine m, but in the"):
        assert any(fault in sentence for sentence in found.unreadable)


def write_single_files(results: Path, found: list[Record], release: str = "torch-1") -> None:
    """Write a file for each record, as versions of framebench did that had no files of lines."""
    for number, one in enumerate(found):
        machine = one.provenance.machine
        folder = results / "records" / machine / release / one.case.replace("/", ".")
        folder.mkdir(parents=True, exist_ok=True)
        text = one.model_dump_json(indent=1) + "\n"
        (folder / f"20260102T00000000000{number}.json").write_text(text)


def test_records_in_files_of_their_own_are_collected(tmp_path: Path) -> None:
    made = records(folder(tmp_path / "made", "m"))
    write_single_files(tmp_path / "old", made)
    assert counts(collect([tmp_path / "old"], tmp_path / "all")) == (3, 0, 0, 0)
    assert counts(collect([tmp_path / "old"], tmp_path / "all")) == (0, 3, 0, 0)
    assert records(tmp_path / "all") == made
    assert list_files(tmp_path / "all") == [store.find_file(tmp_path / "all", "m", "torch-1")]


def test_records_in_files_of_their_own_are_collected_in_their_own_folder(tmp_path: Path) -> None:
    made = records(folder(tmp_path / "made", "m"))
    old = tmp_path / "old"
    write_single_files(old, made)
    with pytest.warns(
        store.RecordWarning, match=r"older versions wrote them; .*framebench collect"
    ):
        assert records(old) == []
    assert counts(collect([old], old)) == (3, 0, 0, 0)
    assert counts(collect([old], old)) == (0, 3, 0, 0)
    shutil.rmtree(old / "records" / "m" / "torch-1")
    assert records(old) == made


@pytest.mark.parametrize("content", ["{", "", '{"schema_version": 2}', "[" * 100_000])
def test_a_bad_file_of_one_record_does_not_take_down_the_others(
    content: str, tmp_path: Path
) -> None:
    made = records(folder(tmp_path / "made", "m"))
    write_single_files(tmp_path, made)
    first = min((tmp_path / "records").rglob("2*.json"))
    first.with_name("20270101T000000000000.json").write_text(content)
    first.with_name("20270101T000000000001.json").symlink_to(first)
    assert counts(collect([tmp_path], tmp_path / "all")) == (3, 0, 0, 2)


def test_what_a_folder_has_under_one_name_stays_under_one(tmp_path: Path) -> None:
    """A host may change what it shows of a machine: its instructions, or a part of its memory."""
    source = folder(tmp_path / "a", "m", session="1")
    folder(source, "m", OTHER, session="2")
    assert counts(collect([source], tmp_path / "all")) == (6, 0, 0, 0)
    assert {r.provenance.machine for r in records(tmp_path / "all")} == {"m"}
    assert counts(collect([source], tmp_path / "all")) == (0, 6, 0, 0)


def test_the_machines_folders_of_a_run_on_many_are_collected_into_it(tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        folder(tmp_path / NODES / name, name, session=name)
    done = framebench("collect", str(tmp_path), "--results", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "6 records added, 0 known" in done.stdout
    assert "6 known" in framebench("collect", str(tmp_path), "--results", str(tmp_path)).stdout


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    inside = folder(tmp_path / "a", "m") / "records"
    done = framebench("collect", str(inside), "--results", str(tmp_path / "all"))
    assert done.returncode == 1
    assert (
        f"{inside}: no records to collect; name a folder that has records/ or nodes/ in it"
        in done.stderr
    )


def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadMachine):
        collect([folder(tmp_path / "a", "m")], tmp_path / "all", "../../elsewhere")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"memory_bytes": 2**34 - 2**27}, True),
        ({"libc": "glibc 2.40", "system": "Linux 6.9 x86_64"}, True),
        ({"system": "Linux 6.1 aarch64"}, False),
        ({"memory_bytes": 2**35}, False),
        ({"gpus": ["H100"]}, False),
        ({"transparent_huge_pages": "always"}, False),
    ],
)
def test_what_the_fingerprint_of_a_machine_is_made_of(change: dict[str, Any], same: bool) -> None:
    assert (hash_hardware(HARDWARE | change) == hash_hardware(HARDWARE)) is same


def test_searches_and_probes_are_collected_once_under_the_machines_name(tmp_path: Path) -> None:
    node, kind = tmp_path / "node", tmp_path / "kind"
    folder(node, "node1")
    origin = provenance(machine="node1", hardware=HARDWARE)
    probed = Probed(probe="names", names={"torch.amp": True}, provenance=origin)
    store.append(probed, node / "claims" / "node1.jsonl")
    search = Fit(case=CASE.id, budget_bytes=2**20, status="none", answer="none", provenance=origin)
    old_file = (
        node / "fits" / "node1" / "torch-1" / "a.case" / "20260101.json"
    )  # of an older version
    store.write_atomically(search.model_dump_json(indent=1), old_file)

    assert [collect([node], kind, "kind").answers for _ in range(2)] == [2, 0]
    collected = origin.model_copy(update={"machine": "kind", "node": "node1"})
    ((place, one),) = store.read_answers(Probed, kind / "claims")
    assert place == f"{kind / 'claims' / 'kind.jsonl'}:1"
    assert one == probed.model_copy(update={"provenance": collected})
    assert list(load_searches(kind)) == [search.model_copy(update={"provenance": collected})]
    assert (kind / "fits" / "kind" / "torch-1.jsonl").is_file()
