"""Make the names of pages and anchors, from whatever records contain."""

from __future__ import annotations

import hashlib
import re

LONGEST_NAME = 100  # characters of a name; file systems take 255 bytes


def make_slug(text: str) -> str:
    """Return a name that is safe as a file, as an anchor and in an address.

    `transformer/torch/train/fp32/b4/cpu` becomes `transformer.torch.train.fp32.b4.cpu`. Different
    texts get different names: if more than slashes had to be changed, the name ends in a hash. That
    includes capitals, since some file systems take them for small letters.
    """
    plain = text.replace("/", ".")
    safe = re.sub(r"[^a-z0-9._-]+", "-", plain.lower())
    safe = re.sub(r"\.{2,}", ".", safe).strip(".-")[:LONGEST_NAME]
    if safe and safe == plain and "." not in text:
        return safe
    # records may contain a lone surrogate, which UTF-8 has no bytes for
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{safe or 'x'}-{digest[:8]}"


def get_machine_folder(machine: str) -> str:
    """Return the folder of a machine's pages, below the site's."""
    return f"machines/{make_slug(machine)}"


def get_case_page(machine: str, case: str) -> str:
    """Return the path of the page that has a case, below the site's folder, without an ending.

    The page has all of a machine's cases of the same workload, scenario and framework.
    """
    workload, framework, scenario, *_ = case.split("/")
    name = make_slug(f"{workload}-{scenario}-{framework}")
    return f"{get_machine_folder(machine)}/cases/{name}"


def get_case_link(machine: str, case: str) -> str:
    """Return the address of a case, below the site's folder."""
    return f"{get_case_page(machine, case)}.html#{make_slug(case)}"


def get_prediction_page(device: str, case: str) -> str:
    """Return the path of the page with a device's predictions of a workload and scenario."""
    workload, _, scenario, *_ = case.split("/")
    return f"predicted/{make_slug(device)}/{make_slug(f'{workload}-{scenario}')}"


def get_prediction_link(device: str, case: str, release: str) -> str:
    """Return the address of the prediction of a case by a release such as `jax-0.10.2`."""
    return f"{get_prediction_page(device, case)}.html#{make_slug(f'{case}/{release}')}"
