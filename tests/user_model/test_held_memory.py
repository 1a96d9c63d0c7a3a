"""Memory that a user's file holds next to its model is part of the peak, and is named.

The peak is compared with the high-water mark (VmHWM) of a plain loop's process.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from framebench.adapters.base import UNSEEN
from framebench.instruments.host import MALLOC_ENV
from tests.conftest import list_requested
from tests.processes import run_inside

HERE = Path(__file__).parent
MIB = 2**20
CONTENT = tomllib.loads((HERE / "held_memory.toml").read_text())
HELD: dict[str, dict[str, Any]] = {row["name"]: row for row in CONTENT["file"]}
BUFFERS = (3, 30)  # MiB, below and above what was once told apart
# models that users reported, of what may be counted otherwise: files of cases/
REPORTED = {
    "language": "weights of two names, and products that a library of its own makes",
    "spectral": "complex weights",
    "factors": "sparse gradients of large tables",
    "teacher_and_student": "activations of which half are not saved",
}


@pytest.fixture(scope="module")
def measured_files(request, tmp_path_factory, environment) -> dict[str, Any]:
    """Return the peaks by two instruments of each file that is asked for, and its named holders."""
    files = tmp_path_factory.mktemp("held")
    buffered = [name_buffered(size) for size in BUFFERS]
    for name in {"nothing", *buffered, *list_requested(request)}:
        write_file(name, files / name)
    packages = tmp_path_factory.mktemp("packages")
    (packages / "tiny_kernels.py").write_text(CONTENT["library"])
    program = HERE / "programs" / "measure_peaks.py"
    arguments = (str(files), str(packages))
    return run_inside(environment["torch"], program, *arguments, variables=MALLOC_ENV)


def write_file(name: str, folder: Path) -> None:
    """Write a user's file into a new folder, with a module next to it that holds a table."""
    folder.mkdir()
    (folder / "beside.py").write_text("import torch\nTABLE = torch.ones(6, 2**20)\n")
    if name in REPORTED:
        shutil.copy(HERE / "cases" / f"{name}.py", folder / "mine.py")
    else:
        (folder / "mine.py").write_text(f"{CONTENT['beginning']}\n{HELD[name]['code']}")


def name_buffered(mib: int) -> str:
    """Return the name of the file whose library has buffers of this size."""
    return f"a library with {mib} MiB of buffers"


def subtract_overhead(name: str, measured_files: dict[str, Any]) -> int:
    """Return the plain loop's peak without what its process takes whatever the file, some MiB: code
    and kernels.
    """
    nothing = measured_files["nothing"]
    overhead = nothing["plain_peak"] - nothing["reported"]["peak"]
    return measured_files[name]["plain_peak"] - overhead


# the cases that `make test` runs; `make test-all` runs the others too
CASES = [
    pytest.param(name, marks=() if row.get("often") else pytest.mark.all_cases)
    for name, row in HELD.items()
]


@pytest.mark.parametrize("name", CASES)
def test_memory_held_outside_the_model_is_part_of_the_peak(name, measured_files):
    reported = measured_files[name]["reported"]
    plain_peak = subtract_overhead(name, measured_files)
    assert reported["peak"] == pytest.approx(plain_peak, abs=4 * MIB), reported
    expected = measured_files["nothing"]["reported"]["peak"] + HELD[name]["bytes"]
    assert reported["peak"] >= expected - 4 * MIB
    assert reported["saved"] <= reported["peak"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("command", ["max_batch_peak", "explained_peak"])
def test_max_batch_and_explain_read_the_peak_that_try_reads(command, name, measured_files):
    measured = measured_files[name]
    assert measured[command] == pytest.approx(measured["reported"]["peak"], abs=MIB)


@pytest.mark.parametrize("name", CASES)
def test_the_holder_of_memory_outside_the_model_is_named(name, measured_files):
    holders = measured_files[name]["reported"]["holders"]
    holder = HELD[name].get("holder")
    if not holder:
        assert sum(holders.values()) < 0.1 * MIB
        return
    assert max(holders, key=holders.get) == holder
    tolerance = 4 * MIB if holder == UNSEEN else 0.1 * MIB
    assert holders[holder] == pytest.approx(HELD[name]["bytes"], abs=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTED)
def test_peaks_of_reported_models_agree_with_a_plain_loop(name, measured_files):
    peak = subtract_overhead(name, measured_files)
    assert measured_files[name]["reported"]["peak"] == pytest.approx(peak, rel=0.03, abs=4 * MIB)


@pytest.mark.parametrize("size", BUFFERS)
def test_library_buffers_are_reported_apart_from_the_peak(size, measured_files):
    without = measured_files["nothing"]["reported"]
    buffered = measured_files[name_buffered(size)]["reported"]
    assert buffered["peak"] == pytest.approx(without["peak"], abs=MIB)
    assert buffered["libraries"] - without["libraries"] == pytest.approx(size * MIB, abs=0.5 * MIB)


FLAX = """
import jax
import optax
from flax import {api}

WIDTH = 256

def model():
    return {model}

def batch(n):
    x, y = jax.random.normal(jax.random.key(0), (2, n, WIDTH))
    return x, y

def loss(output, target):
    return ((output - target) ** 2).mean()

def optimizer():
    return optax.adam(1e-3)
"""


@pytest.mark.parametrize(
    ("api", "model"),
    [
        ("nnx", "nnx.Sequential(*[nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(0)) for _ in range(3)])"),
        ("linen", "linen.Sequential([linen.Dense(WIDTH) for _ in range(3)])"),
    ],
)
def test_a_flax_model_is_held_once(api, model, tmp_path, environment):
    """Weights and Adam's two moments: what the file's model began as is not kept beside them."""
    file = tmp_path / "mine.py"
    file.write_text(FLAX.format(api=api, model=model))
    result = run_inside(environment["jax"], HERE / "programs/try_flax_live.py", str(file))
    assert result["live"] == pytest.approx(3 * result["weights"] + result["inputs"], abs=4096)


JITTOR = """
import jittor as jt
from jittor import nn

def model():
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))

def batch(n):
    return jt.randn(n, 256), jt.randn(n, 256)

def loss(output, target):
    return ((output - target) ** 2).mean()
"""
HOLDING = {  # by framework: a file without anything next to its model, and a table that it may hold
    "jax": (
        FLAX.format(api="nnx", model="nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(0))"),
        "TABLE = {'rows': [jax.numpy.ones((6, 2**20))]}",
    ),
    "jittor": (JITTOR, "TABLE = {'rows': [jt.ones((6, 2**20)).sync()]}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("framework", HOLDING)
def test_arrays_in_globals_are_named_and_counted_once(framework, tmp_path, environment):
    code, table = HOLDING[framework]
    found = []
    for number, added in enumerate(("", table)):
        file = tmp_path / str(number) / "mine.py"
        file.parent.mkdir()
        file.write_text(f"{code}\n{added}\n")
        program = HERE / "programs/held_arrays.py"
        arguments = (framework, str(file))
        found.append(run_inside(environment[framework], program, *arguments, variables=MALLOC_ENV))
    without, holding = found
    size = 24 * MIB
    assert without["holders"] == {}
    assert holding["holders"] == {"the global `TABLE` of mine.py": size}
    assert holding["live"] == without["live"]
    assert without["peaks"]
    for instrument, peak in without["peaks"].items():
        assert holding["peaks"][instrument] - peak == pytest.approx(size, abs=MIB), instrument


@pytest.mark.slow
def test_a_graph_of_jittor_is_part_of_the_peak(tmp_path, environment):
    """The peak exceeds the watched pool by the graph.

    A graph has some hundred bytes an operation, whatever the batch.
    """

    def count_graph(layers, batch):
        """Return the operations of a graph, and the bytes beyond the pool of its arrays."""
        program = HERE / "programs/try_graphs.py"
        arguments = (str(tmp_path), str(layers), str(batch))
        return run_inside(environment["jittor"], program, *arguments)

    few = count_graph(layers=10, batch=4)
    many = count_graph(layers=40, batch=4)
    of_larger_batch = count_graph(layers=40, batch=64)

    assert 300 < few["bytes_beyond_pool"] / few["operations"] < 1200
    assert many["operations"] > 3 * few["operations"]
    ratio_of_operations = many["operations"] / few["operations"]
    assert many["bytes_beyond_pool"] / few["bytes_beyond_pool"] == pytest.approx(
        ratio_of_operations, rel=0.2
    )
    assert of_larger_batch["bytes_beyond_pool"] == pytest.approx(
        many["bytes_beyond_pool"], rel=0.05
    )
