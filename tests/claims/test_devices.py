"""The answer for the reader's device: measured on it, planned for it, or not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebench.claims.devices import describe_for_device, find_device
from framebench.claims.ledger import Entry
from framebench.claims.show import MOST_LINES, make_answer, make_detail, make_list
from framebench.devices.catalog import UnknownDevice
from tests.claims.claim_records import add_both, judge_claim, make_claim


@pytest.fixture
def entry(results) -> Entry:
    """Return a claim that was measured on a GPU, planned for another, and set aside on a CPU."""
    add_both(results, 60)
    found = judge_claim(results, make_claim(transfers_to_gpu=False))
    on_gpu = replace(found.lines[0], device="gpu", other_machine="nvidia-h200")
    planned = replace(on_gpu, other_machine="", planned=True, value=0.7, low=0.65, high=0.75)
    on_cpu = replace(found.lines[0], decides=False, set_aside=True, value=1.0, low=1.0, high=1.0)
    return replace(found, lines=(on_gpu, planned, replace(on_cpu, verdict="no effect")))


@pytest.mark.parametrize(
    ("device", "answer"),
    [
        ("h200", "Measured on nvidia-h200: confirmed, -40.0 %."),
        ("h100-80gb", "Planned for h100-80gb: confirmed, -30.0 % (-35.0 to -25.0)."),
        ("cpu", "On a CPU: no effect, +0.0 %."),
        ("a100", "On a100: not known. Measured on nvidia-h200: confirmed, -40.0 %. Planned for"),
    ],
)
def test_the_answer_is_that_of_the_readers_device(entry, device, answer):
    assert describe_for_device(entry, device).startswith(answer)


@pytest.mark.parametrize("device", ["t4-16gb", "tpu"])
def test_a_gpu_without_a_name_answers_for_no_other(entry, device):
    """Its words in an answer, "measured on this GPU", begin like the names of some devices."""
    unnamed = replace(entry, lines=(replace(entry.lines[0], other_machine=""),))
    answer = describe_for_device(unnamed, device)
    assert answer == f"On {device}: not known. Measured on this GPU: confirmed, -40.0 %."


def test_numbers_of_the_device_that_decide_nothing_are_named_where_none_decides(entry):
    on_gpu, _, on_cpu = entry.lines
    bfloat16 = replace(on_cpu, name="torch bfloat16 b4/cpu", set_aside=False, value=0.9)
    also_shown = replace(bfloat16, low=0.88, high=0.92, verdict="confirmed")
    claim = replace(entry, lines=(on_gpu, replace(on_gpu, decides=False), also_shown))
    answer = describe_for_device(claim, "cpu")
    similar = "torch bfloat16 b4/cpu -10.0 % (-12.0 to -8.0)"
    assert answer.startswith(f"On cpu: no verdict. Similar there: {similar}. Measured on nvidia")
    assert make_answer(claim, "cpu").texts["comparison"][1] == also_shown.name
    assert make_answer(claim).texts["comparison"][1] == on_gpu.name


def test_measured_and_planned_numbers_never_share_a_cell(entry):
    assert entry.measured == "-40.0 %"
    assert entry.planned == "-30.0 % (-35.0 to -25.0)"
    for table in (make_list([entry]), make_answer(entry), make_detail(entry)):
        assert {"measured", "planned"} <= set(table.head)
        assert table.texts["measured"]
        for measured, planned in zip(table.texts["measured"], table.texts["planned"], strict=True):
            assert "-30.0" not in measured
            assert "-40.0" not in planned


@pytest.mark.parametrize(("device", "number"), [("cpu", "+0.0 %"), ("h200", "-40.0 %")])
def test_the_rows_of_the_readers_device_decide_and_come_first(entry, device, number):
    for table in (make_answer(entry, device), make_detail(entry, device)):
        assert table.texts["decides"].count("yes") == 1
        assert table.texts["decides"][0] == "yes"
        assert table.texts["measured"][0].startswith(number)


def test_a_table_without_plans_has_no_column_of_plans(entry):
    measured = replace(entry, lines=(entry.lines[0],))
    assert "planned" not in make_answer(measured).head


def test_a_result_that_holds_everywhere_answers_for_every_device(entry):
    answer = describe_for_device(replace(entry, transfers_to_gpu=True), "a100")
    assert "should hold on every device" in answer


def test_an_untested_claim_is_known_on_no_device(entry):
    untested = replace(entry, lines=(), verdict="not testable here", qualifier="needs Julia")
    assert describe_for_device(untested, "a100") == (
        "On a100: not known: not testable here (needs Julia)."
    )


def test_devices_are_found_by_their_beginning():
    assert find_device("A100") == "a100"
    with pytest.raises(UnknownDevice, match=r"no device 'a1000'; devices: cpu, h100-80gb, "):
        find_device("a1000")


def test_a_device_without_an_answer_gets_the_command_that_predicts_it(entry):
    case = "transformer/torch/train/{fp32,compile}/b4/tiny"
    command = f"Predict it for a100: framebench predict '{case}' --device a100-40gb"
    assert make_answer(entry, "a100").title.splitlines()[-1] == command
    with_options = make_answer(entry, "a100", " --results mine")
    assert with_options.title.splitlines()[-1] == f"{command} --results mine"
    assert " --all --results mine" in with_options.caption
    of_size = make_answer(entry, "a100", " --results mine", " --size tiny")
    assert of_size.title == with_options.title, "predict takes no --size"
    assert " --all --size tiny --results mine" in of_size.caption
    without_plan = replace(entry, lines=entry.lines[:1])
    also_shown = replace(
        entry, lines=tuple(replace(line, decides=not line.planned) for line in entry.lines)
    )
    answered = [make_answer(entry, device) for device in ("h100-80gb", "cpu", "")]
    undecided = [make_answer(claim, "a100") for claim in (without_plan, also_shown)]
    for answer in (*answered, *undecided):
        assert "Predict it" not in answer.title


def test_an_answer_stands_under_the_gpu_whose_number_it_is(entry):
    answer = make_answer(entry, "a100")
    assert answer.machine == "m, nvidia-h200"
    assert "Claimed: less (peak, compiled / eager)." in answer.title.splitlines()[0]
    assert make_answer(replace(entry, lines=entry.lines[1:])).machine == "m"


def test_an_answer_is_the_verdict_and_at_most_six_lines(entry):
    answer = make_answer(replace(entry, lines=entry.lines[:1] * 9))
    assert answer.title.startswith("Confirmed")
    assert len(answer.rows) == MOST_LINES
    assert "3 more lines" in answer.caption
