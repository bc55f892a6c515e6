"""JSON output; `tests/json_schemas.py` validates every output in the tests."""

from __future__ import annotations

import json

import pytest

from hpcmod.cli.main import main
from tests.json_schemas import called_command, check_output, fault_of


def test_a_wrong_output_fails_the_test_that_prints_it() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"\$: 'version' is a required property"):
        check_output(main, ["ls", "--json"], json.dumps({"containers": []}))
    assert fault_of({"version": 1, "error": {"code": 3, "message": "no", "cure": ""}}) == ""
    assert fault_of({"version": 1, "error": {"code": 3}})


def test_the_command_is_found_behind_the_options_of_hpcmod() -> None:
    assert called_command(main, ["-v", "catalogue", "journal", "--json"]) == ("catalogue", "journal")
    assert called_command(main, ["exec", "x", "--json"]) == ()
