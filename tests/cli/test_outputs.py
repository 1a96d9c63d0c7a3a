"""Where a file that the user names takes nothing, what was measured is shown all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from framebench.cli.shared import check_file_option
from framebench.explain import command as explaining
from framebench.explain.record import Explanation
from framebench.records import store
from framebench.records.provenance import ROOT
from framebench.user_model import command as trying
from framebench.user_model import report
from tests.callbacks import refuse_work
from tests.figure_records import make_record
from tests.processes import framebench, plain_user, small_disk
from tests.user_model.small_file import write_variant

CASE = "transformer/torch/train/fp32/b4/cpu"
EXPLANATION = Explanation.model_validate_json(
    (ROOT / f"results/explained/{CASE.replace('/', '.')}.json").read_bytes()
)
# the record is older than the timeline by kind, which the figure draws
BYTES = [moment.bytes for moment in EXPLANATION.timeline]
EXPLANATION = EXPLANATION.model_copy(update={"timeline_by_kind": {"temporary": BYTES}})


def link_to_full_device(file: Path) -> None:
    file.symlink_to("/dev/full")


def fill_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "precious").touch()


def link_to_folder(link: Path) -> None:
    """Make a link to a folder that a page might have been written into."""
    folder = link.with_name("precious")
    folder.mkdir()
    link.symlink_to(folder)


# what takes nothing, and why
USELESS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "nobody reads this pipe"),
    "full device": (link_to_full_device, "No space left on device"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "reason"), USELESS.values(), ids=USELESS)
def test_an_explanation_is_printed_where_its_figure_cannot_be_written(
    make, reason, tmp_path, monkeypatch
):
    monkeypatch.setattr(explaining.measure, "explain", Mock(return_value=EXPLANATION))
    monkeypatch.setattr(explaining.environments, "is_built", Mock(return_value=True))
    figure = tmp_path / "step.svg"
    make(figure)
    done = framebench("explain", CASE, "--to", figure, results=tmp_path / "results", code=1)
    assert done.stderr.endswith(f"framebench: {reason}: {figure}\n")
    assert "saved for backward" in done.stdout


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("make", "reason"), USELESS.values(), ids=USELESS)
def test_a_users_model_is_shown_where_its_figure_cannot_be_written(make, reason, tmp_path, capsys):
    figure = tmp_path / "step.svg"
    make(figure)
    records = [make_record("fp32", 200), make_record("checkpoint", 120)]
    with pytest.raises(OSError, match=reason) as raised:
        report.show(records, {}, None, figure, None, as_json=False)
    assert raised.value.filename == str(figure)
    assert "checkpoint" in capsys.readouterr().out


@pytest.mark.parametrize("make", [fill_folder, link_to_folder], ids=lambda make: make.__name__)
def test_a_folder_that_no_page_may_replace_is_refused_before_anything_runs(
    make, tmp_path, monkeypatch
):
    monkeypatch.setattr(trying, "measure_strategies", refuse_work)
    folder = tmp_path / "page"
    make(folder)
    done = framebench("try", write_variant(tmp_path), "--html", folder, code=2)
    assert f"--html: {folder} " in done.stderr
    assert (tmp_path / "precious").exists() or (folder / "precious").exists()


def test_the_old_file_stays_where_a_disk_is_full_and_the_error_names_it(tmp_path):
    with small_disk(tmp_path / "disk", "size=16k") as disk:
        file = disk / "peaks.json"
        file.write_text("precious")
        with pytest.raises(OSError, match="No space left on device") as raised:
            store.replace_text("x" * 2**20, file)
        assert raised.value.filename == str(file)
        assert file.read_text() == "precious"
        assert list(disk.iterdir()) == [file]


def test_a_read_only_folder_is_named_by_the_file_that_was_to_be_written(tmp_path):
    with small_disk(tmp_path / "disk", "ro,size=16k") as disk:
        file = disk / "peaks.json"
        with pytest.raises(OSError, match="Read-only file system") as raised:
            store.replace_text("x", file)
    assert raised.value.filename == str(file)


WRITE = "import sys; from framebench.records.store import replace_text; "
WRITE += "from pathlib import Path; replace_text('written', Path(sys.argv[1]))"


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("redirection", ["| cat", '> "$0"; cat "$0"'], ids=["pipe", "file"])
def test_standard_output_is_written_to_wherever_it_leads(name, redirection, tmp_path):
    """It was opened before, and may lead to a pipe, which has no folder."""
    command = f'(echo before; {sys.executable} -c "{WRITE}" {name}) {redirection}'
    done = subprocess.run(
        ["sh", "-c", command, str(tmp_path / "file")], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == "before\nwritten", done.stderr


def test_a_device_may_be_named_for_output_in_whose_folder_nothing_may_be_made():
    with plain_user():
        assert check_file_option(Path("/dev/null")) == Path("/dev/null")


def test_a_link_that_leads_to_itself_is_replaced(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    store.replace_text("new", link)
    assert link.read_text() == "new"
