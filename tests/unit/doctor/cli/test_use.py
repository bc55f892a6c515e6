"""`hpcmod site use`: a profile that must be chosen by name is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.calls import hpcmod


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HPCMOD_SITE", raising=False)
    return tmp_path


def test_a_chosen_profile_is_used_from_then_on(home: Path) -> None:
    for name in ("polaris", "alps"):
        done = hpcmod("site", "use", name)
        assert (done.exit_code, done.stderr) == (
            0,
            f"hpcmod: {name} is used from now on: {home}/.config/hpcmod/site.toml\n",
        )
        assert f'name = "{name}"' in hpcmod("site", "show").stdout
    (home / "ours.toml").write_text('name = "ours"\nextends = "generic"\n[network]\nfabric = "ib"\n')
    assert hpcmod("site", "use", str(home / "ours.toml"), HPCMOD_SITE="lumi").stderr.endswith("unset HPCMOD_SITE\n")
    assert 'fabric = "ib"' in hpcmod("site", "show").stdout


def test_a_profile_that_a_person_wrote_is_kept(home: Path) -> None:
    path = home / ".config/hpcmod/site.toml"
    path.parent.mkdir(parents=True)
    path.write_text('name = "mine"\n')
    assert hpcmod("site", "use", "polaris").exit_code == 2
    assert path.read_text() == 'name = "mine"\n'
    done = hpcmod("site", "use", "polariss")
    assert (done.exit_code, "Did you mean polaris?" in done.stderr) == (3, True)
    assert "site new -o" in hpcmod("site", "use", "./none.toml").stderr
    assert hpcmod("site", "binds", "--explain", "--site", "generic").stderr.startswith(
        "hpcmod: the site profile binds nothing"
    )
