"""Packages from people whom a user does not trust: locks, records of shared sets, and URLs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.test_user_packages import PROJECT, Mine, mine, only_lmod
from tests.package_index import Index, run_index
from tests.registry import make_certificate
from tests.stack import Done, run
from tests.wheels import make_source, make_wheel, sha256_of

__all__ = ["mine"]

pytestmark = pytest.mark.stack

MARK = "evil-code-ran"


def make_evil(home: Path) -> dict[str, str]:
    """Return a package whose build leaves a mark in the home directory of whoever builds it."""
    backend = f"import pathlib\npathlib.Path({str(home / MARK)!r}).touch()\n"
    return {"pyproject.toml": PROJECT.replace("mycode", "evilpkg"), "backend.py": backend}


class Attack:
    """An index of a hostile colleague, and what they write into files that the user reads."""

    def __init__(self, mine: Mine, index: Index, evil: Path) -> None:
        self.mine, self.index, self.evil = mine, index, evil
        self.shared = mine.home / "project"
        self.lines = f"--index-url={index.url}", "--no-binary=evilpkg", "evilpkg"

    def directory(self) -> Done:
        code = self.mine.home / "evil"
        code.mkdir()
        for name, text in make_evil(self.mine.home).items():
            (code / name).write_text(text)
        return self.mine("add", "Toy", code)

    def requirements_file(self) -> Done:
        (self.mine.home / "r.txt").write_text(f"{self.index.files}{self.evil.name}#egg=evilpkg\n")
        return self.mine("add", "Toy", "-r", self.mine.home / "r.txt")

    def lock(self) -> Done:
        wheel = self.mine.wheels / "einops-0.8.1-py3-none-any.whl"
        asked = json.dumps(["einops", *self.lines])
        file = self.mine.home / "pylock.toml"
        file.write_text(
            'lock-version = "1.0"\ncreated-by = "mallory"\n[[packages]]\nname = "einops"\nversion = "0.8.1"\n'
            f'wheels = [{{ name = "{wheel.name}", path = "{wheel}", hashes = {{ sha256 = "{sha256_of(wheel)}" }} }}]\n'
            f"[tool.hpcmod]\nrequirements = {asked}\n"
        )
        self.mine("add", "Toy", "--lock", file)
        return self.mine("add", "Toy", "needy")

    def shared_set(self) -> Done:
        """Try a requirement, a URL and the name of a package, one after another."""
        self.mine.must("add", "Toy", "einops==0.8.0", "needy", "--shared", self.shared)
        record = next((self.shared / "Toy/states").glob("1-*.json"))
        kept, shared = record.read_text(), ("--shared", self.shared)
        values = json.loads(kept)
        requirement = "\n".join(("einops", *self.lines))
        record.write_text(json.dumps({**values, "requirements": ["needy", requirement]}))
        first = self.mine("rebase", "Toy", "--dry-run", *shared)
        url = f"evilpkg @ {self.index.files}{self.evil.name}"
        record.write_text(json.dumps({**values, "requirements": ["needy", url]}))
        second = self.mine("drop", "Toy", "needy", *shared)
        values["locked"][0]["name"] = f"einops==0.8.0\n{self.lines[0]}\n#"
        record.write_text(json.dumps(values))
        third = self.mine("drop", "Toy", "needy", *shared)
        print(first, second, third)
        assert "Traceback" not in first.stderr + second.stderr
        return third


@only_lmod
@pytest.mark.parametrize("attack", sorted(name for name in vars(Attack) if not name.startswith("_")))
def test_nothing_is_built_or_downloaded_for_a_stranger(mine: Mine, tmp_path: Path, attack: str) -> None:
    served = tmp_path / "served"
    served.mkdir()
    evil = make_source(served, "evilpkg", "1.0", make_evil(mine.home))
    make_wheel(served, "einops", "99.0")
    with run_index(served, make_certificate(tmp_path / "tls")) as index:
        made = Attack(mine, index, evil)
        made.mine = WithCertificate(mine, index)  # type: ignore[assignment]
        act: Callable[[], Done] = getattr(made, attack)
        done = act()
    print(done.returncode, done.stdout, done.stderr)
    assert not (mine.home / MARK).exists()
    assert not index.asked
    assert "Traceback" not in done.stderr


class WithCertificate:
    """The user, who trusts the certificate of the index."""

    def __init__(self, mine: Mine, index: Index) -> None:
        self._mine, self._ca = mine, str(index.ca)

    def __getattr__(self, name: str) -> object:
        return getattr(self._mine, name)

    def __call__(self, verb: str, *words: str | Path) -> Done:
        line = [word for word in self._mine.argv(verb, *words) if word != "--no-index"]
        return run(line, self._mine.environment(PIP_CERT=self._ca, PIP_INDEX_URL=NO_INDEX), self._mine.home)

    def must(self, verb: str, *words: str | Path) -> str:
        return self._mine.must(verb, *words)


NO_INDEX = "https://localhost:1/simple/"
