"""JSON output; `tests/json_schemas.py` validates every output in the tests."""

from __future__ import annotations

import json

import pytest

from hpcmod.core.cli.main import main
from hpcmod.core.cli.output import CommandFailure
from hpcmod.core.cli.reference.commands import every_command, verbs_of
from hpcmod.core.cli.reference.schemas import outputs_of
from tests.json_schemas import called_command, check_output, fault_of


def test_an_output_with_an_undeclared_field_fails_the_test_that_prints_it() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"\$: .*'more' was unexpected"):
        check_output(main, ["ls", "--json"], json.dumps({"version": 1, "containers": [], "more": 1}))


def test_every_command_with_json_declares_what_it_prints() -> None:
    undeclared = [
        words
        for words, command in every_command()
        if any(parameter.name == "as_json" for parameter in command.params) and not outputs_of(command)
    ]
    assert undeclared == []


def test_an_error_is_an_output_of_every_command() -> None:
    check_output(main, ["ls", "--json"], json.dumps({"version": 1, "error": {"code": 3, "message": "no", "cure": ""}}))
    assert fault_of((CommandFailure,), {"version": 1, "error": {"code": 3}})


def test_the_command_is_found_behind_the_options_of_hpcmod() -> None:
    assert called_command(main, ["-v", "catalogue", "journal", "--json"]).name == "journal"
    assert called_command(main, ["exec", "x", "--json"]) is verbs_of(main)["exec"]
