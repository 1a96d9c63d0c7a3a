"""The answer for the reader's device: measured on it, planned for it, or not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framebench.claims.devices import describe_for_device, find_device
from framebench.claims.ledger import Entry
from framebench.claims.lines import Line
from framebench.claims.show import MOST_LINES, make_answer, make_detail, make_list
from framebench.devices.catalog import UnknownDevice
from tests.claims.claim_records import add_both, judge_claim, make_claim


@pytest.fixture
def entry(results) -> Entry:
    """Return a claim that was measured on a GPU, planned for another, and set aside on a CPU."""
    add_both(results, 60)
    found = judge_claim(results, make_claim(transfers_to_gpu=False))
    (line,) = found.lines
    on_gpu = replace(line, device="gpu", other_machine="nvidia-h200")
    planned = replace(on_gpu, other_machine="", planned=True, value=0.7, low=0.65, high=0.75)
    on_cpu = replace(line, decides=False, set_aside=True, verdict="no effect")
    on_cpu = replace(on_cpu, value=1.0, low=1.0, high=1.0)
    return replace(found, lines=(on_gpu, planned, on_cpu))


@pytest.mark.parametrize(
    ("device", "answer"),
    [
        ("h200", "Measured on nvidia-h200: confirmed, -40.0 %."),
        ("h100-80gb", "Planned for h100-80gb: confirmed, -30.0 % (-35.0 to -25.0)."),
        ("cpu", "On a CPU: no effect, +0.0 %."),
        (
            "a100",
            "On a100: not known. Measured on nvidia-h200: confirmed, -40.0 %. "
            "Planned for h100-80gb: confirmed, -30.0 % (-35.0 to -25.0). "
            "On a CPU: no effect, +0.0 %.",
        ),
    ],
)
def test_the_answer_is_that_of_the_readers_device(entry, device, answer):
    assert describe_for_device(entry, device) == answer


@pytest.mark.parametrize("device", ["t4-16gb", "tpu"])
def test_a_gpu_without_a_name_answers_for_no_other(entry, device):
    """Its words in an answer, "measured on this GPU", begin like the names of some devices."""
    on_gpu, _, _ = entry.lines
    unnamed = replace(entry, lines=(replace(on_gpu, other_machine=""),))
    answer = describe_for_device(unnamed, device)
    assert answer == f"On {device}: not known. Measured on this GPU: confirmed, -40.0 %."


def make_line(name: str, *, device: str, decides: bool, value: float) -> Line:
    """Return a line that confirms a claim by the ratio of two peaks; `gpu` is an H200."""
    return Line(
        id=name,
        name=name,
        measurement=name,
        decides=decides,
        verdict="confirmed",
        form="change",
        metric="Ratio of peak",
        null=1.0,
        value=value,
        low=value - 0.02,
        high=value + 0.02,
        device=device,
        other_machine="nvidia-h200" if device == "gpu" else "",
    )


@pytest.fixture
def decided_on_gpu(entry) -> Entry:
    """Return a claim about float16 that a GPU decides; bfloat16 is shown on a GPU and a CPU."""
    lines = (
        make_line("float16/gpu", device="gpu", decides=True, value=0.6),
        make_line("bfloat16/gpu", device="gpu", decides=False, value=0.7),
        make_line("bfloat16/cpu", device="cpu", decides=False, value=0.9),
    )
    return replace(entry, lines=lines)


def test_undecided_lines_of_the_readers_device_are_listed_as_similar(decided_on_gpu):
    assert describe_for_device(decided_on_gpu, "cpu") == (
        "On cpu: no verdict. Similar there: bfloat16/cpu -10.0 % (-12.0 to -8.0). "
        "Measured on nvidia-h200: confirmed, -40.0 % (-42.0 to -38.0)."
    )


@pytest.mark.parametrize(
    ("device", "names"),
    [
        ("cpu", ["float16/gpu", "bfloat16/cpu", "bfloat16/gpu"]),
        ("", ["float16/gpu", "bfloat16/gpu", "bfloat16/cpu"]),
    ],
)
def test_undecided_rows_of_the_readers_device_follow_those_behind_the_verdict(
    device, names, decided_on_gpu
):
    assert make_answer(decided_on_gpu, device).texts["comparison"] == names


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


PREDICT = (
    "Predict it for a100: framebench predict 'transformer/torch/train/{fp32,compile}/b4/tiny' "
    "--device a100-40gb"
)


def test_a_device_without_an_answer_gets_the_command_that_predicts_it(entry):
    assert make_answer(entry, "a100").title.splitlines()[-1] == PREDICT


def test_suggested_commands_repeat_the_options_that_they_take(entry):
    answer = make_answer(entry, "a100", options=" --results mine", choices=" --size tiny")
    assert answer.title.splitlines()[-1] == f"{PREDICT} --results mine", "it takes no --size"
    assert " --all --size tiny --results mine" in answer.caption


@pytest.mark.parametrize("device", ["h100-80gb", "cpu", pytest.param("", id="no device")])
def test_a_prediction_is_suggested_only_for_a_device_without_an_answer(entry, device):
    assert "Predict it" not in make_answer(entry, device).title


def test_a_prediction_is_suggested_only_where_a_plan_would_decide(entry):
    on_gpu, planned, on_cpu = entry.lines
    without_plan = replace(entry, lines=(on_gpu,))
    assert "Predict it" not in make_answer(without_plan, "a100").title
    undecided_plan = replace(entry, lines=(on_gpu, replace(planned, decides=False), on_cpu))
    assert "Predict it" not in make_answer(undecided_plan, "a100").title


def test_an_answer_stands_under_the_gpu_whose_number_it_is(entry):
    assert make_answer(entry, "a100").machine == "m, nvidia-h200"
    _, planned, on_cpu = entry.lines
    assert make_answer(replace(entry, lines=(planned, on_cpu))).machine == "m"


def test_an_answer_begins_with_what_is_claimed_of_which_numbers(entry):
    first_line, *_ = make_answer(entry, "a100").title.splitlines()
    assert "Claimed: less (peak, compiled / eager)." in first_line


def test_an_answer_is_the_verdict_and_at_most_six_lines(entry):
    on_gpu, _, _ = entry.lines
    answer = make_answer(replace(entry, lines=(on_gpu,) * 9))
    assert answer.title.startswith("Confirmed")
    assert len(answer.rows) == MOST_LINES == 6
    assert "3 more lines" in answer.caption


@pytest.fixture
def two_models(entry) -> Entry:
    """Return a claim that a GPU decides of the Transformer, and that has a plan of ResNet-50."""
    on_gpu, planned, _ = entry.lines
    resnet_cases = ("resnet50/torch/train/fp32/b64/full", "resnet50/torch/train/compile/b64/full")
    of_resnet = replace(planned, name="resnet50/torch", decides=False, cases=resnet_cases)
    return replace(entry, lines=(on_gpu, of_resnet))


def test_an_answer_about_a_model_begins_with_that_models_verdict(entry):
    answer = make_answer(entry, subjects=["transformer"])
    first, second, *_ = answer.title.splitlines()
    assert first == (
        "transformer: Measured on nvidia-h200: confirmed, -40.0 %. Planned for h100-80gb: "
        "confirmed, -30.0 % (-35.0 to -25.0). On a CPU: no effect, +0.0 %."
    )
    assert second.startswith("In all: Confirmed")
    of_device, *_ = make_answer(entry, "h100", subjects=["transformer"]).title.splitlines()
    assert of_device.startswith("transformer: Planned for h100-80gb: confirmed")


def test_a_model_that_decides_nothing_has_no_verdict(two_models):
    similar, *_ = make_answer(two_models, subjects=["resnet50"]).title.splitlines()
    assert similar == "resnet50: no verdict. Similar: resnet50/torch -30.0 % (-35.0 to -25.0)."
    none, *_ = make_answer(two_models, subjects=["unet3d"]).title.splitlines()
    assert none == "unet3d: no number of this claim is of it."


def test_rows_of_the_model_that_was_asked_about_come_first(two_models):
    on_gpu, of_resnet = [line.name for line in two_models.lines]
    assert make_answer(two_models).texts["comparison"] == [on_gpu, of_resnet]
    asked = make_answer(two_models, subjects=["resnet50"])
    assert asked.texts["comparison"] == [of_resnet, on_gpu]
