from __future__ import annotations

import errno
import os
import re

import pytest

from hpcmod.core import errors
from hpcmod.core.errors import ELSEWHERE, BadInputError, HpcmodError, LackingError, NoSpaceError, explain_os_error

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HpcmodError)]


def test_without_a_cure_a_message_has_one_line() -> None:
    assert str(HpcmodError("a.sif is truncated")) == "a.sif is truncated"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_message_and_cure(kind: type[HpcmodError]) -> None:
    err = kind("found x", "do y")
    assert (err.message, err.cure, str(err)) == ("found x", "do y", "found x\ndo y")


def test_the_listed_exit_codes_are_zero_those_of_the_kinds_and_that_of_an_interruption() -> None:
    listed = [int(code) for code in re.findall(r"^(\d+) ", errors.__doc__ or "", re.MULTILINE)]
    assert listed == sorted(listed)
    assert set(listed) == {0, 130} | {kind.exit_code for kind in KINDS}


def test_no_two_kinds_share_an_exit_code_but_bad_input_and_the_base() -> None:
    codes = {kind: kind.exit_code for kind in KINDS if kind is not HpcmodError}
    assert len(set(codes.values())) == len(codes)
    assert HpcmodError.exit_code == BadInputError.exit_code


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(errno.ENOSPC, NoSpaceError, id="disk full"),
        pytest.param(errno.EDQUOT, NoSpaceError, id="quota"),
        pytest.param(errno.EACCES, LackingError, id="not ours"),
        pytest.param(errno.EROFS, LackingError, id="read-only"),
        pytest.param(errno.EIO, HpcmodError, id="anything else"),
    ],
)
def test_system_errors_are_reported_with_file_and_reason(code: int, kind: type[HpcmodError]) -> None:
    err = explain_os_error(OSError(code, os.strerror(code), "/some/file"))
    assert type(err) is kind
    assert err.message == f"/some/file: {os.strerror(code)}"
    assert explain_os_error(OSError("odd")).message == "odd"
    assert bool(err.cure) == (kind is not HpcmodError)
    assert "--prefix" not in err.cure
    assert ("--prefix" in explain_os_error(OSError(code, "", "/x"), ELSEWHERE).cure) == bool(err.cure)
