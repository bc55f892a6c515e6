from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcmod.building.engines.trial import true_program, write_trial
from hpcmod.errors import LackingError
from hpcmod.model.libraries.elf import parse_elf


def test_the_program_of_the_trial_runs_here_without_any_library(tmp_path: Path) -> None:
    write_trial(tmp_path)
    assert subprocess.run([str(tmp_path / "hpcmod-true")], env={}).returncode == 0


@pytest.mark.parametrize(("architecture", "last"), [("amd64", "0f05"), ("arm64", "010000d4")])
def test_it_is_a_static_program_of_that_architecture(architecture: str, last: str) -> None:
    program = true_program(architecture)
    elf = parse_elf(lambda offset, length: program[offset : offset + length], len(program))
    assert elf is not None and (elf.machine, elf.bits, elf.needed, elf.interpreter) == (architecture, 64, (), "")
    assert program.endswith(bytes.fromhex(last))  # the system call comes last: no code after it may run


def test_an_unsupported_target_is_reported() -> None:
    with pytest.raises(LackingError, match="cannot be built on s390x"):
        true_program("s390x")
