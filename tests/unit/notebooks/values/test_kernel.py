from __future__ import annotations

import json

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.notebooks.values.kernel import make_kernel, parse_kernel, render_kernel

PROGRAM = "/sw/PyTorch/2.7.1-rocm/in-environment"


def test_a_kernel_runs_ipykernel_through_the_installation() -> None:
    kernel = make_kernel(PROGRAM, "PyTorch/2.7.1+rocm", "/sw/PyTorch/2.7.1-rocm")
    assert (kernel.name, kernel.display_name) == ("pytorch-2.7.1-rocm", "PyTorch/2.7.1+rocm")
    *start, code, flag, file = kernel.argv
    assert start == [PROGRAM, "exec", "--bind", "{connection_file}", "--", "python", "-c"]
    assert code.endswith("from ipykernel.kernelapp import launch_new_instance; launch_new_instance()")
    assert (flag, file) == ("-f", "{connection_file}")


def test_a_rendered_kernel_is_read_back() -> None:
    kernel = make_kernel(PROGRAM, "A/1", "/sw", name="mine", display_name="Ä (mine)")
    assert parse_kernel("mine", render_kernel(kernel)) == kernel
    assert json.loads(render_kernel(kernel))["display_name"] == "Ä (mine)"


def test_a_kernel_requests_commands_of_the_host_only_on_request() -> None:
    assert "env" not in json.loads(render_kernel(make_kernel(PROGRAM, "A/1", "/sw")))
    kernel = make_kernel(PROGRAM, "A/1", "/sw", host_commands=True)
    assert parse_kernel("a-1", render_kernel(kernel)) == kernel
    assert json.loads(render_kernel(kernel))["env"] == {"HPCMOD_HOST_COMMANDS": "1"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"argv": ["python"]}', '{"metadata": {"hpcmod": {"module": "A/1"}}}'])
def test_kernels_of_others_are_not_ours(text: str) -> None:
    assert parse_kernel("python3", text) is None


@pytest.mark.parametrize("name", ["..", "a/b", "With Space", "A"])
def test_names_that_jupyter_refuses_are_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="valid kernel name"):
        make_kernel(PROGRAM, "A/1", "/sw", name=name)
