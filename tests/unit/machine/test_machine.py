from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NotFoundError
from hpcmod.machine import machine
from hpcmod.machine.machine import Choice, detect, find_machine, load_site, state_directory

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_profile_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "SYSTEM_PROFILE", tmp_path / "etc" / "site.toml")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_profile(place: str, name: str, more: str = "") -> Path:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'name = "{name}"\n{more}')
        return path

    return write_profile


def test_an_unknown_machine_is_generic(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = {name: text for name, text in machine.site_profiles().items() if not name.startswith("generic-")}
    monkeypatch.setattr(machine, "site_profiles", lambda: shipped)
    assert load_site(None, {}).name == "generic"


def test_a_shipped_profile_is_chosen_by_name_and_extends_generic() -> None:
    site = load_site("lumi", {})
    assert site.name == "lumi"
    assert site.images.central[0] == "/appl/local/containers/easybuild-sif-images"
    assert site.module.family == load_site("generic", {}).module.family


def test_the_variable_overrules_the_easyconfig_and_the_users_file(write: Write, tmp_path: Path) -> None:
    write("config/hpcmod/site.toml", "users")
    environ = {"HPCMOD_SITE": str(write("own.toml", "own")), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert load_site("lumi", environ).name == "own"
    assert load_site("lumi", {"HPCMOD_SITE": ""}).name == "lumi"


def test_a_request_overrides_the_users_profile_and_that_the_sites(write: Write, tmp_path: Path) -> None:
    write("etc/site.toml", "sites")
    for environ in ({"XDG_CONFIG_HOME": str(tmp_path / "config")}, {"HOME": str(tmp_path / "home")}):
        assert load_site(None, environ).name == "sites"
        write(f"{'config' if 'HOME' not in environ else 'home/.config'}/hpcmod/site.toml", "users")
        assert load_site(None, environ).name == "users"
        assert load_site("lumi", environ).name == "lumi"


def test_a_profile_may_extend_another_file(write: Write) -> None:
    base = write("base.toml", "base", '[images]\ncentral = ["/a"]\n[environment]\nA = "1"\n')
    top = write("top.toml", "top", f'extends = "{base}"\n[environment]\nB = "2"\n')
    site = load_site(str(top), {})
    assert (site.name, site.images.central) == ("top", ("/a",))
    assert {one.name: one.value for one in site.tunables} == {"A": "1", "B": "2"}


def test_an_unknown_profile_is_not_found_and_the_shipped_ones_are_listed(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"'lumii'.*generic.*lumi") as caught:
        load_site("lumii", {})
    assert "HPCMOD_SITE" in caught.value.cure
    with pytest.raises(NotFoundError):
        load_site(str(tmp_path), {})


def test_a_profile_that_extends_a_missing_one_or_itself_or_is_not_a_text_is_refused(
    write: Write, tmp_path: Path
) -> None:
    path = write("a.toml", "a", 'extends = "generic_nvidia"\n')
    with pytest.raises(NotFoundError) as caught:
        load_site(str(path), {})
    assert f"`extends` of {path}" in caught.value.cure
    write("b.toml", "b", f'extends = "{path}"\n')
    write("a.toml", "a", f'extends = "{tmp_path}/b.toml"\n')
    with pytest.raises(BadInputError, match="extends itself"):
        load_site(str(path), {})
    path.write_bytes(b'name = "\xff"\n')
    with pytest.raises(HpcmodError, match=r"a\.toml"):
        load_site(str(path), {})


def test_a_profile_that_may_not_be_read_is_told_with_whom_to_ask(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("closed.toml", "x")

    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(machine, "read_text", refuse)
    with pytest.raises(LackingError, match=rf"site profile {path}: Permission denied") as caught:
        find_machine(None, {}, flag=str(path))
    assert f"ls -l {path}" in caught.value.cure


@pytest.mark.parametrize("name", sorted(machine.site_profiles()))
def test_every_shipped_profile_is_valid(name: str) -> None:
    assert load_site(name, {}).description


def test_a_flag_overrides_the_variable_and_that_the_easyconfig(write: Write) -> None:
    own = str(write("own.toml", "own"))
    environ = {"HPCMOD_SITE": "lumi"}
    assert find_machine("frontier", environ, flag=own).choice == Choice(own, "--site")
    assert find_machine("frontier", environ).choice == Choice("lumi", "$HPCMOD_SITE")
    assert find_machine("frontier", {}).choice == Choice("frontier", "the easyconfig")


def test_the_more_specific_of_two_matches_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = f'[detect]\npaths = ["{tmp_path}"]\n'
    shipped = {
        "absent": f'name = "absent"\n[detect]\npaths = ["{tmp_path}/no"]\n',
        "a-vendor": f'name = "a-vendor"\nextends = "generic"\n{here}',
        "generic": 'name = "generic"\n',
        "site": f'name = "site"\nextends = "a-vendor"\n{here}',
    }
    monkeypatch.setattr(machine, "site_profiles", lambda: shipped)
    assert [one.profile for one in detect({})] == ["site", "a-vendor", "generic"]
    assert load_site(None, {}).name == "site"


def test_the_users_file_extends_the_profile_of_this_machine(write: Write, tmp_path: Path) -> None:
    write("etc/site.toml", "sites", 'extends = "machine"\n[images]\ncentral = ["/of/the/site"]\n')
    write("config/hpcmod/site.toml", "users", 'extends = "machine"\n[caches]\nnode_local = "/mine"\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "LMOD_SYSTEM_NAME": "frontier"}
    found = find_machine(None, environ)
    assert [one.name for one in found.profiles] == ["generic", "generic-amd", "frontier", "sites", "users"]
    assert (found.site.module.caches.node_local, found.site.images.central) == ("/mine", ("/of/the/site",))


def test_every_value_knows_where_it_comes_from(write: Write) -> None:
    own = write("own.toml", "own", 'extends = "lumi"\n[caches]\nnode_local = "/mine"\n[environment]\nX = "1"\n')
    found = find_machine(None, {}, flag=str(own))
    assert found.origin("caches.node_local") == f"{own}:4"
    assert found.origin("environment.X") == f"{own}:6"
    assert found.origin("environment.NCCL_SOCKET_IFNAME").startswith("lumi.toml:")
    assert found.origin("module.family").startswith("generic.toml:")
    assert found.origin("launcher.distribution") == ""


STRICT = '[trust]\nneeds = ["digest"]\n'


@pytest.mark.parametrize("how", ["--site", "$HPCMOD_SITE", "the easyconfig", "the user's file", "extends machine"])
def test_no_profile_relaxes_the_trust_policy_of_the_system_profile(how: str, write: Write, tmp_path: Path) -> None:
    write("etc/site.toml", "sites", STRICT)
    lax = 'extends = "machine"\n[trust]\nneeds = []\nrules = [{ source = "*", needs = [] }]\n'
    own = str(write("own.toml", "own", lax if how == "extends machine" else lax.partition("\n")[2]))
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    if how == "the user's file":
        write("config/hpcmod/site.toml", "users", lax)
    if how in ("$HPCMOD_SITE", "extends machine"):
        environ["HPCMOD_SITE"] = own
    asked, flag = ("generic" if how == "the easyconfig" else None), (own if how == "--site" else None)
    site = find_machine(asked, environ, flag=flag).site
    assert site.name != "sites"
    assert site.images.trust.rule_for("docker://h.io/x:1").needs == ("digest",)


def test_a_profile_can_add_to_the_trust_policy_of_the_system_profile(write: Write) -> None:
    write("etc/site.toml", "sites", STRICT)
    own = write("own.toml", "own", '[trust]\nneeds = ["checksum"]\n')
    assert load_site(str(own), {}).images.trust.rule_for("/x.sif").needs == ("digest", "checksum")
    assert load_site(None, {}).images.trust.also is None


def test_a_system_profile_that_cannot_be_read_stops_every_other(write: Write) -> None:
    write("etc/site.toml", "sites", "[trust\n")
    with pytest.raises(BadInputError):
        load_site("generic", {})


def test_an_extended_profile_is_searched_next_to_the_profile(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("etc/site.toml", "sites", 'extends = "base.toml"\n')
    write("etc/base.toml", "base", STRICT)
    write("cwd/base.toml", "planted", "[trust]\nneeds = []\n")
    monkeypatch.chdir(tmp_path / "cwd")
    assert load_site(None, {}).images.trust.needs == ("digest",)


def test_a_file_of_the_working_directory_is_not_a_profile_by_its_bare_name(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("cwd/ours", "planted")
    write("cwd/hpcmod/site.toml", "planted")
    monkeypatch.chdir(tmp_path / "cwd")
    with pytest.raises(NotFoundError):
        load_site(None, {"HPCMOD_SITE": "ours"})
    assert load_site(None, {"XDG_CONFIG_HOME": "."}).name != "planted"
    assert load_site("./ours", {}).name == "planted"


def test_a_file_in_an_easyconfig_is_searched_next_to_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("here/ours.toml", "ours")
    write("cwd/ours.toml", "planted")
    monkeypatch.chdir(tmp_path / "cwd")
    assert load_site("ours.toml", {}, str(tmp_path / "here" / "X.eb")).name == "ours"
    assert load_site("lumi", {}, str(tmp_path / "here" / "X.eb")).name == "lumi"


def test_the_state_directory_is_absolute() -> None:
    assert state_directory({"HOME": "/h"}) == Path("/h/.local/state/hpcmod")
    assert state_directory({"HOME": "/h", "XDG_STATE_HOME": "relative"}) == Path("/h/.local/state/hpcmod")
    assert state_directory({"XDG_STATE_HOME": "/s"}) == Path("/s/hpcmod")
    with pytest.raises(LackingError):
        state_directory({"HOME": "relative"})
