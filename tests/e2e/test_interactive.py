"""Jupyter kernels and servers in a container, used by a real Jupyter client and a real browser."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from hpcmod.core.values.facts import Package
from tests.browser import run_browser
from tests.catalogues import make_catalogue, make_record
from tests.e2e.conftest import Jobs, installed, must, processes_of
from tests.stack import CHECKOUT, Cluster, Done, Stack, run, until

pytestmark = pytest.mark.stack

EASYCONFIG = """
easyblock = 'ContainerModule'
name = 'Lab'
version = '1.0'
homepage = 'https://jupyter.org/'
description = 'JupyterLab for tests'
toolchain = SYSTEM
sources = ['{image}']
checksums = [None]
moduleclass = 'ai'
"""


@pytest.fixture(scope="module")
def lab_installed(stack: Stack, machine: Cluster, jupyter_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    top = tmp_path_factory.mktemp("lab")
    easyconfig = top / "Lab-1.0.eb"
    easyconfig.write_text(EASYCONFIG.format(image=jupyter_sif.name))
    return installed(stack, top, machine, easyconfig, jupyter_sif)


@pytest.fixture
def lab(lab_installed: Jobs, tmp_path: Path) -> Jobs:
    (tmp_path / "caches").mkdir()
    return replace(lab_installed, directory=tmp_path)


def environ(lab: Jobs) -> dict[str, str]:
    """Return the environment of a user's shell on this machine, with the user's modules available but none loaded."""
    more = {"MODULEPATH": str(lab.modules), "HPCMOD_SITE": str(lab.site), "APPTAINER_QUIET": "1"}
    return lab.machine.stack.environment(lab.directory, **more)


def hpcmod(lab: Jobs, *words: str) -> Done:
    return run([str(lab.machine.stack.python.parent / "hpcmod"), *words], environ(lab), lab.directory)


@contextmanager
def started(lab: Jobs, name: str) -> Iterator[tuple[BlockingKernelClient, KernelManager]]:
    """Start a kernel like Jupyter does, in the environment of a user who has loaded no module."""
    specs = KernelSpecManager(kernel_dirs=[str(lab.directory / ".local/share/jupyter/kernels")])
    manager = KernelManager(kernel_name=name, kernel_spec_manager=specs)
    manager.connection_file = str(lab.directory / "connection.json")
    env = {name: value for name, value in environ(lab).items() if not name.startswith(("HPCMOD", "MODULE"))}
    manager.start_kernel(env=env, cwd=str(lab.directory))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield client, manager
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def value_of(client: BlockingKernelClient, code: str) -> str:
    """Run code in a kernel and return what it prints."""
    printed: list[str] = []

    def take(message: dict[str, dict[str, str]]) -> None:
        printed.append(message["content"].get("text", ""))

    reply = client.execute_interactive(code, timeout=60, output_hook=take)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(printed).strip()


def test_a_kernel_runs_in_the_container_with_the_users_packages_and_without_hpcmod(lab: Jobs) -> None:
    added = next(lab.modules.parents[1].glob("software/Lab/1.0/user-software/venv/lab/lib/python3*/site-packages"))
    (added / "mine.py").write_text("answer = 42\n")
    shown = must(hpcmod(lab, "kernel", "Lab", "--dry-run")).stdout
    place = must(hpcmod(lab, "kernel", "Lab", "--display-name", "Lab (mine)")).stdout.strip()
    spec = json.loads((Path(place) / "kernel.json").read_text())
    assert {**spec, "display_name": "Lab/1.0"} == json.loads(shown)
    with started(lab, "lab-1.0") as (client, manager):
        assert value_of(client, "print(1 + 1)") == "2"
        assert value_of(client, "import mine; print(mine.answer)") == "42"
        assert value_of(client, "import os; print(os.environ['APPTAINER_CONTAINER'])").endswith(".sif")
        assert value_of(client, "import sys; print(sys.base_prefix)").startswith("/opt/miniconda3/envs/pytorch")
        sleep = "import time; print('sleeping', flush=True); time.sleep(60)"
        client.execute(sleep, stop_on_error=False)  # or the kernel drops requests that arrive soon after an error
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=60))["content"].get("status") != "error":
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert value_of(client, "import wave; print(wave.__name__)") == "wave"  # the image is still mounted
    listed = json.loads(must(hpcmod(lab, "kernel", "--list", "--json")).stdout)["kernels"]
    assert [(one["name"], one["display_name"], one["ready"]) for one in listed] == [("lab-1.0", "Lab (mine)", True)]
    must(hpcmod(lab, "kernel", "Lab", "--remove"))
    assert not list((lab.directory / ".local/share/jupyter/kernels").iterdir())


def test_the_interpreter_of_vs_code_runs_in_the_container_also_when_called_from_there(lab: Jobs) -> None:
    project = lab.directory / "my project"
    (project / ".vscode").mkdir(parents=True)
    (project / ".vscode/settings.json").write_text('{"editor.rulers": [120]}')
    must(hpcmod(lab, "code", "Lab", "--directory", str(project)))
    settings = json.loads((project / ".vscode/settings.json").read_text())
    interpreter = settings["python.defaultInterpreterPath"].replace("${workspaceFolder}", str(project))
    assert settings["editor.rulers"] == [120]
    env = {name: value for name, value in environ(lab).items() if not name.startswith(("HPCMOD", "MODULE"))}
    code = "import debugpy, subprocess, sys; print(sys.argv[1]); sys.stdout.flush(); subprocess.run(sys.argv[1:])"
    done = must(run([interpreter, "-c", code, interpreter, "-c", "import sys; print(sys.base_prefix)"], env, project))
    assert done.stdout.splitlines() == [interpreter, "/opt/miniconda3/envs/pytorch"]
    assert json.loads(must(hpcmod(lab, "code", "Lab", "--directory", str(project), "--json")).stdout)["written"] == []


def read_way(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the two lines that `hpcmod jupyter` prints: the ssh command and the URL."""
    assert process.stdout
    lines = [process.stdout.readline().strip() for _ in range(2)]
    assert lines[0].startswith("ssh -N -L "), (lines, process.communicate(timeout=60))
    return lines[0], lines[1]


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own server
            return int(answer.status)
    except urllib.error.HTTPError as err:
        return err.code


def test_a_browser_opens_the_server_that_runs_here(lab: Jobs) -> None:
    words = [str(lab.machine.stack.python.parent / "hpcmod"), "jupyter", "Lab", "--here"]
    process = subprocess.Popen(
        words, env=environ(lab), cwd=lab.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        ssh, url = read_way(process)
        port = url.split(":")[2].partition("/")[0]
        assert ssh.split()[3] == f"{port}:localhost:{port}"
        sessions = lab.directory / ".local/state/hpcmod/jupyter"
        (token,) = sessions.glob("*/token")
        assert (token.stat().st_mode & 0o777, token.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert token.read_text() == url.partition("token=")[2]
        assert processes_of(token.read_text()) == []  # other users can read command lines
        api = url.replace("/lab?", "/api/status?")
        assert (status_of(api), status_of(api.partition("?")[0])) == (200, 403)
        with run_browser(lab.directory) as browser:
            browser.get(url)
            assert until(lambda: "Python 3" in browser.find_element("tag name", "body").text)  # JupyterLab's launcher
            assert browser.title.startswith("JupyterLab") or "Lab" in browser.title
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)
    assert not list(sessions.iterdir()), said


DRIVER = """
import json, signal, subprocess, sys, urllib.request
words = ["jupyter", "Lab", "--", "-p", "small", "-t", "5"]
process = subprocess.Popen([sys.argv[1], *words], stdout=subprocess.PIPE, text=True)
ssh, url = process.stdout.readline().split(), process.stdout.readline().strip()
port, node, remote = ssh[3].split(":")
with urllib.request.urlopen(url.replace("localhost", node).replace("/lab?", "/api/status?"), timeout=60) as answer:
    status = answer.status
running = subprocess.run(["squeue", "-h", "-o", "%j %T %N"], capture_output=True, text=True).stdout.strip()
process.send_signal(signal.SIGINT)
process.wait(60)
left = subprocess.run(["squeue", "-h"], capture_output=True, text=True).stdout.strip()
print(json.dumps({"node": node, "status": status, "running": running, "left": left, "same": port == remote}))
"""
"""Runs on the login node: starts a server in a job, calls it like the forwarded port would, and sends SIGINT."""


def test_a_server_runs_in_a_job_and_ctrl_c_cancels_it(lab: Jobs) -> None:
    (lab.directory / "drive.py").write_text(DRIVER)
    hpcmod = lab.machine.stack.python.parent / "hpcmod"
    done = must(lab(lab.machine.stack.python, "drive.py", hpcmod, HOME=str(lab.directory)))
    found = json.loads(done.stdout)
    assert (found["status"], found["left"], found["same"]) == (200, "", True), done.stderr
    assert found["running"] == f"jupyter RUNNING {found['node']}"
    assert not list((lab.directory / ".local/state/hpcmod/jupyter").iterdir())


PORTAL = """
import html, http.cookiejar, json, re, subprocess, sys, time, urllib.error, urllib.parse, urllib.request
from pathlib import Path
stand_in, app, staged, values = sys.argv[1:]
run = lambda *words, text="": subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
argv = json.loads(run("ruby", stand_in, "stage", app, staged, text=values))
job = run("sbatch", "--parsable", *argv, f"{staged}/job_script_content.sh").strip()
end = time.monotonic() + 60
while not Path(staged, "connection.yml").exists():
    time.sleep(0.5)
    if time.monotonic() > end or not run("squeue", "-h", "-j", job):
        sys.exit(run("scontrol", "show", "job", job) + Path(staged, "output.log").read_text())
shown = run("ruby", stand_in, "view", app, staged)
address, fields = re.search('action="([^"]*)"', shown)[1], re.findall('name="([^"]*)" value="([^"]*)"', shown)
_, _, host, port, *_ = address.split("/")
server = f"http://{host}:{port}"
def status(path, data=None, opener=urllib.request.build_opener()):
    try:
        with opener.open(server + path, data, timeout=60) as answer:
            return answer.status, answer.url.removeprefix(server), answer.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, "", ""
browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
base = f"/node/{host}/{port}"
stranger = [status(f"{base}/api/contents")[0], status(f"{base}/login", b"password=x&token=x")[0]]
landed = status(html.unescape(address), urllib.parse.urlencode(fields).encode(), browser)
seen = [each["name"] for each in json.loads(status(f"{base}/api/contents", None, browser)[2])["content"]]
job_seen = run("scontrol", "show", "job", job)
run("scancel", job)
print(json.dumps({"stranger": stranger, "landed": landed[:2], "base": base, "seen": seen, "job": job_seen}))
"""
"""Runs on the login node, where the portal's proxy reaches the nodes: starts the app and connects as a browser does."""


def test_open_ondemand_starts_jupyterlab_from_the_catalogue_and_only_its_user_gets_in(lab: Jobs) -> None:
    directory, stand_in = lab.directory, CHECKOUT / "tests" / "e2e" / "ondemand.rb"
    record = make_record("Lab/1.0", packages=(Package("jupyterlab", "4.0"),))
    catalogue = make_catalogue(directory / "catalogue", record, make_record("Other/1.0"))
    (catalogue.software / "Lab").mkdir(parents=True)
    (catalogue.software / "Lab" / "1.0").symlink_to(next(lab.modules.parents[1].glob("software/Lab/1.0")))
    path = f'export PATH="{lab.machine.stack.root}/bin:$PATH"'  # Open OnDemand passes no environment to jobs
    (directory / "site.toml").write_text(f"{lab.site.read_text()}[job]\ncommand = ['{path}']\n")
    words = ("catalogue", "docs", "--catalogue", str(catalogue.directory), "--ondemand", "virtual", "app")
    must(hpcmod(replace(lab, site=directory / "site.toml"), *words))
    (directory / "my notebooks").mkdir()
    (directory / "my notebooks" / "first.ipynb").touch()
    values = {"node": "small-g: 1 GPU, 7 cores", "bc_account": "project_1", "directory": f"{directory}/my notebooks"}
    (directory / "portal.py").write_text(PORTAL)
    staged = directory / "staged"
    arguments = (stand_in, directory / "app", staged, json.dumps(values))
    done = must(lab(lab.machine.stack.python, "portal.py", *arguments, HOME=str(directory)))
    shown = json.loads(done.stdout)
    log = (staged / "output.log").read_text()
    assert shown["stranger"] == [403, 403], log
    assert shown["landed"] == [200, f"{shown['base']}/lab"], log
    assert shown["seen"] == ["first.ipynb"]
    assert "Partition=small-g" in shown["job"] and "TimeLimit=01:00:00" in shown["job"]
