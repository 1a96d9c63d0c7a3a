"""The files that a project has beside its code: they can be read by those who read them, and agree with each other."""

from __future__ import annotations

import os
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from framebench.records.record import ALL_INSTRUMENTS, Status
from framebench.strategies.strategy import FRAMEWORKS
from framebench.suite.protocol import VERSION
from tests.processes import ROOT, framebench

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(file for file in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if file.name != "config.yml")
HOST = re.compile(r"https?://|\b[\w-]+\.(?:com|org|io|dev)\b")
PINNED = re.compile(r"uses: [\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
TARGET = re.compile(r"^([a-z-]+):(?!=)", re.M)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def parsed(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in parsed(file)["jobs"].values() for step in job["steps"]]


def commands(name: str) -> list[str]:
    """What a workflow runs."""
    return [step["run"] for step in steps(GITHUB / "workflows" / name) if "run" in step]


def triggers(name: str) -> dict[str, Any]:
    """YAML 1.1, which this parser reads, takes the key `on` for true."""
    return parsed(GITHUB / "workflows" / name)[True]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_is_whole_and_asks_for_no_secret_and_no_host(file: Path) -> None:
    found, text = parsed(file), file.read_text()
    assert set(found) <= {"name", True, "permissions", "concurrency", "jobs", "env"}
    assert "secrets." not in text
    assert not HOST.search(text), "where packages come from is the runner's business"
    assert found["permissions"]["contents"] == "read"
    for job in found["jobs"].values():
        assert job["runs-on"]
        assert job["timeout-minutes"] <= (350 if "make test-all" in str(job["steps"]) else 120)
        assert job.get("needs") in (None, *found["jobs"])
    for step in steps(file):
        assert ("uses" in step) != ("run" in step), step
    for line in text.splitlines():
        if "uses:" in line:
            assert PINNED.search(line), f"an action is pinned by the hash of its commit, with its version beside it: {line}"


def test_continuous_integration_runs_what_the_clone_has() -> None:
    assert commands("ci.yml") == [".ci/run", "make test-control"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert set(triggers("ci.yml")) == {"push", "pull_request"}
    assert parsed(GITHUB / "workflows" / "ci.yml")["jobs"]["ci"]["timeout-minutes"] == 90


def test_continuous_integration_tests_every_python_that_is_supported() -> None:
    jobs = parsed(GITHUB / "workflows" / "ci.yml")["jobs"]
    (setup,) = (step for step in jobs["ci"]["steps"] if step.get("uses", "").startswith("actions/setup-python"))
    tested = {setup["with"]["python-version"], *jobs["control"]["strategy"]["matrix"]["python"]}
    classifiers = [line.rpartition(" :: ")[2] for line in project()["classifiers"] if "Python :: 3." in line]
    assert tested == set(classifiers)


def test_every_week_each_newest_release_is_compared() -> None:
    workflow = parsed(GITHUB / "workflows" / "weekly.yml")
    assert "schedule" in triggers("weekly.yml")
    assert tuple(workflow["jobs"]["newest"]["strategy"]["matrix"]["framework"]) == FRAMEWORKS
    assert "make test-all" in commands("weekly.yml")
    (command,) = (c for c in commands("weekly.yml") if "framebench" in c)
    words = command.replace("${{ matrix.framework }}", "jax").split()
    assert words[:4] == [".venv/bin/framebench", "versions", "newest", "jax"]
    assert framebench(*words[1:], "--help").returncode == 0
    assert not re.search(r"\d+\.\d+\.\d+", command), "a version in it would be compared with forever"


def test_the_site_is_made_where_it_is_published_from() -> None:
    assert commands("site.yml") == ["make site"]
    (upload,) = (step for step in steps(GITHUB / "workflows" / "site.yml") if "upload-pages" in step.get("uses", ""))
    assert upload["with"]["path"] == "site"
    assert f"--html --to {upload['with']['path']}\n" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_an_issue_form_can_be_filled_in(file: Path) -> None:
    form = parsed(file)
    assert {"name", "description", "body"} <= set(form) <= {"name", "description", "body", "labels", "title"}
    assert len({field["id"] for field in form["body"]}) == len(form["body"])
    for field in form["body"]:
        assert field["type"] in ("input", "textarea", "dropdown")
        assert field["attributes"]["label"]
        assert ("options" in field["attributes"]) == (field["type"] == "dropdown")
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    assert [file.stem for file in FORMS] == ["claim", "crash", "framework_regression", "wrong_number"]
    assert isinstance(parsed(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"], bool)
    (framework,) = (field for field in parsed(FORMS[2])["body"] if field["type"] == "dropdown")
    assert tuple(framework["attributes"]["options"]) == FRAMEWORKS


def test_hooks_call_targets_that_exist() -> None:
    targets = TARGET.findall((ROOT / "Makefile").read_text())
    (local,) = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local", "others would have to be fetched"
    for hook in local["hooks"]:
        make, target = hook["entry"].split()
        assert (make, hook["language"], hook["pass_filenames"]) == ("make", "system", False)
        assert target in targets
        re.compile(hook.get("files", ""))


def test_the_licence_is_the_one_that_is_named() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert project()["license"] == "Apache-2.0"
    assert "Apache License\n" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert re.search(r"^   Copyright \d{4} the framebench authors$", text, re.M)
    assert project()["license-files"] == ["LICENSE"]


def test_the_citation_names_this_version() -> None:
    citation = parsed(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation), "what the format requires"
    assert citation["version"] == project()["version"]
    assert citation["license"] == project()["license"]
    assert citation["authors"] == project()["authors"] == [{"name": "the framebench authors"}]
    assert not {"doi", "repository-code", "url"} & set(citation), "none is published"


def test_the_changelog_names_the_present_protocol_and_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    head = re.findall(r"^### Protocol (\d+) \((.*)\)$", text, re.M)
    assert [int(number) for number, _ in head] == list(range(VERSION, 0, -1)), "raised, and nobody told what it means"
    assert head[0][1].startswith("since "), "the newest one holds"
    assert all(DATE.search(when) for _, when in head)
    for told in re.split(r"^### Protocol ", text, flags=re.M)[1:]:
        assert "- **Comparing**: " in told, told.splitlines()[0]
    assert f"## [{project()['version']}]" in text


def test_the_glossary_has_every_instrument_and_status() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    terms = [line for line in lines if line.startswith("- **")]
    assert all(re.fullmatch(r"- \*\*.+?\*\*.*: .+\.", line) or ", and **" in line for line in terms)
    assert {name for name in ALL_INSTRUMENTS if not any(line.startswith(f"- **`{name}`**") for line in terms)} == set()
    (status,) = (line for line in terms if line.startswith("- **status**"))
    assert set(re.findall(r"`(\w+)`", status)) == set(get_args(Status))
