from __future__ import annotations

import json

import pytest

from hpcmod.core.errors import (
    BadInputError,
    CheckFailedError,
    HpcmodError,
    LackingError,
    NoSpaceError,
    NotFoundError,
    RemoteError,
    VerificationError,
)
from hpcmod.packages.values.plan import PackageChange, make_state_plan
from hpcmod.packages.values.report import explain_failure, parse_pip_report
from hpcmod.packages.values.requirement import Requirements, without_credentials
from hpcmod.packages.values.state import Locked
from tests.package_states import EINOPS, TARGET, make_state

NOW = "2026-02-02T00:00:00Z"
CHANGE = PackageChange(added=Requirements(("x",)), action="add x")
PLAN = make_state_plan(TARGET, CHANGE, number=1, parent=None)


def report(**info: object) -> str:
    return json.dumps({"install": [{"download_info": info, "metadata": {"name": "Einops", "version": "0.8.1"}}]})


def test_a_report_gives_versions_hashes_and_sources() -> None:
    text = report(url="https://me:secret@example.org/e.whl?token=1", archive_info={"hashes": {"sha256": "c" * 64}})
    found = (Locked("einops", "0.8.1", "c" * 64, "https://example.org/e.whl", 0, NOW),)
    assert parse_pip_report(text, None, NOW) == found
    kept = parse_pip_report(report(url="x", archive_info={"hash": f"sha256={'c' * 64}"}), make_state(1, EINOPS), NOW)
    assert (kept[0].since, kept[0].sha256) == (EINOPS.since, "c" * 64)
    assert parse_pip_report(report(url="git+https://example.org/e.git"), None, NOW)[0].sha256 == ""


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"install": [{}]}'])
def test_an_invalid_report_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_pip_report(text, None, NOW)


@pytest.mark.parametrize(
    ("output", "kind", "said"),
    [
        (
            "x 1.0 depends on torch>=3\n The user requested (constraint) torch==2.7.1+rocm6.2.4\nResolutionImpossible",
            BadInputError,
            "x conflicts with torch 2.7.1+rocm6.2.4 of the image PyTorch/2.7.1",
        ),
        ("The user requested (constraint) einops==0.8.1", BadInputError, "which you have added before"),
        (
            "The user requested (constraint) a==1\nAdditionally, some packages in these conflicts have no matching "
            "distributions available for your environment:\n    a\n",
            NotFoundError,
            "a, which you have added before, is not where pip looks now",
        ),
        (
            "The user requested (constraint) a==1\nAdditionally, some packages in these conflicts have no matching "
            "distributions available for your environment:\n    new\n",
            BadInputError,
            "x conflicts with a 1, which you have added before",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE", VerificationError, "does not match its hash"),
        ("ERROR: No matching distribution found for x", NotFoundError, "no version of x fits Python 3.12"),
        ("ERROR: Cannot find command 'git' - do you have it?", LackingError, "has no git: pip in it cannot fetch x"),
        (
            "ReadTimeoutError\nERROR: No matching distribution found for x",
            RemoteError,
            "the package index cannot be reached",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            NoSpaceError,
            "/tmp: not enough space for pip's temporary files: No space left on device",
        ),
        ("OSError: [Errno 122] Disk quota exceeded: '/x'", NoSpaceError, "/tmp: not enough space for pip"),
        ("ERROR: something else", CheckFailedError, "pip failed in PyTorch/2.7.1"),
    ],
)
def test_failures_are_explained(output: str, kind: type[HpcmodError], said: str) -> None:
    fault = explain_failure(PLAN, output, temporary="/tmp")
    assert type(fault) is kind
    assert said in fault.message
    assert fault.cure


def test_credentials_are_not_kept() -> None:
    assert without_credentials("--index-url=https://u:p@h/s?t=1") == "--index-url=https://h/s"
    assert without_credentials("--no-index") == "--no-index"
    assert without_credentials("file:///a/b.whl") == "file:///a/b.whl"


def test_an_index_that_cannot_be_reached_is_named_with_the_reason() -> None:
    said = (
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NameResolutionError(\"<pip._vendor.urllib3"
        ".connection.HTTPSConnection object at 0x7f>: Failed to resolve 'pypi.example.org' ([Errno -2] Name or "
        "service not known)\")': /simple/x/\nERROR: No matching distribution found for x\n"
    )
    fault = explain_failure(PLAN, said, temporary="/tmp", unread=["/etc/pip.conf"])
    assert "does not read /etc/pip.conf" in fault.cure
    assert "cannot be reached (Failed to resolve 'pypi.example.org'" in fault.message
