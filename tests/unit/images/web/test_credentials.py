from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.images.web.credentials import Credentials, auth_files, find_credentials

HOST = "registry.example.org:5000"
IMAGE = "group/sub/image"


def auth(user: str = "me", password: str = "secret") -> dict[str, str]:  # noqa: S107 - no secret
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def find(home: Path, registry: str = HOST, repository: str = IMAGE, **env: str) -> Credentials | None:
    return find_credentials(registry, repository, env={"HOME": str(home), "PATH": os.environ["PATH"], **env})


def docker(home: Path, content: Any) -> Path:
    return write(home / ".docker" / "config.json", content)


@pytest.mark.parametrize("prefix", ["APPTAINER", "SINGULARITY"])
def test_the_runtimes_variables_apply_to_any_registry(home: Path, prefix: str) -> None:
    docker(home, {"auths": {HOST: auth()}})
    found = find(home, **{f"{prefix}_DOCKER_USERNAME": "you", f"{prefix}_DOCKER_PASSWORD": "theirs"})
    assert found == Credentials(f"{prefix}_DOCKER_USERNAME", "you", "theirs")


@pytest.mark.parametrize(
    ("path", "env"),
    [
        (".docker/config.json", {}),
        (".apptainer/docker-config.json", {}),
        (".singularity/docker-config.json", {}),
        (".config/containers/auth.json", {}),
        ("elsewhere/docker-config.json", {"APPTAINER_CONFIGDIR": "elsewhere"}),
        ("elsewhere/config.json", {"DOCKER_CONFIG": "elsewhere"}),
        ("elsewhere/any.json", {"REGISTRY_AUTH_FILE": "elsewhere/any.json"}),
        ("run/containers/auth.json", {"XDG_RUNTIME_DIR": "run"}),
        ("conf/containers/auth.json", {"XDG_CONFIG_HOME": "conf"}),
    ],
)
def test_each_place_where_tools_keep_logins_is_read(home: Path, path: str, env: dict[str, str]) -> None:
    file = write(home / path, {"auths": {HOST: auth()}})
    found = find(home, **{name: str(home / value) for name, value in env.items()})
    assert found == Credentials(str(file), "me", "secret")
    assert file in auth_files(env={"HOME": str(home), **{name: str(home / value) for name, value in env.items()}})


def test_the_longest_path_wins_whatever_its_file(home: Path) -> None:
    docker(home, {"auths": {f"{HOST}/group/sub": auth("long"), HOST: auth("short")}})
    write(home / ".config/containers/auth.json", {"auths": {f"{HOST}/group": auth("middle"), HOST: auth("first")}})
    users = [
        found.user
        for repository in ("group/sub/image", "group/other", "other", "group/subway")
        if (found := find(home, repository=repository))
    ]
    assert users == ["long", "middle", "first", "middle"]


def test_without_a_file_or_password_or_with_another_hosts_there_is_no_login(home: Path) -> None:
    assert find(home) is None
    assert find(home, APPTAINER_DOCKER_USERNAME="you") is None
    docker(home, {"auths": {"registry.example.org": auth(), f"{HOST}.evil": auth(), "other": auth()}})
    assert find(home) is None


HUB = ("https://index.docker.io/v1/", "docker.io", "registry-1.docker.io", "index.docker.io")


@pytest.mark.parametrize(
    ("key", "host"),
    [
        *((key.format(HOST), HOST) for key in ("https://{}", "https://{}/v2/", "http://{}/v1/", "{}/")),
        *((key, "docker.io") for key in HUB),
    ],
)
def test_keys_are_read_in_all_forms_that_tools_write(home: Path, key: str, host: str) -> None:
    docker(home, {"auths": {key: auth()}})
    assert find(home, host) is not None


@pytest.mark.parametrize(
    ("login", "expected"),
    [
        ({"username": "me", "password": "secret"}, {"user": "me", "password": "secret"}),
        (auth("me", "with:colon"), {"user": "me", "password": "with:colon"}),
        ({**auth("me", ""), "identitytoken": "long"}, {"user": "me", "identity_token": "long"}),
        ({"registrytoken": "short"}, {"registry_token": "short"}),
    ],
)
def test_each_form_of_a_login_is_read(home: Path, login: dict[str, str], expected: dict[str, str]) -> None:
    file = docker(home, {"auths": {HOST: login}})
    assert find(home) == Credentials(str(file), **expected)


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        "[]",
        '"x"',
        "[" * 100_000,
        {"auths": []},
        {"auths": {HOST: "x"}},
        {"auths": {HOST: {"auth": "sEcReT!"}}},
        {"auths": {HOST: {"auth": base64.b64encode(b"sEcReT").decode()}}},
        {"auths": {HOST: {"auth": base64.b64encode(b"\xff\xfe:").decode()}}},
        {"credHelpers": {HOST: "../../bin/sh"}},
        {"credHelpers": {HOST: ["x"]}},
        {"credsStore": "a b"},
    ],
)
def test_an_invalid_file_is_reported_and_not_shown(home: Path, content: Any) -> None:
    file = docker(home, content)
    with pytest.raises(BadInputError) as caught:
        find(home)
    assert str(file) in caught.value.message
    assert "sEcReT" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{}", {"auths": None}, {"auths": {HOST: {}}}])
def test_an_empty_file_or_entry_is_not_a_login(home: Path, content: Any) -> None:
    docker(home, content)
    assert find(home) is None


def test_nothing_shows_a_secret_by_accident() -> None:
    shown = repr(Credentials("file", "me", "secret1", "secret2", "secret3"))
    assert "secret" not in shown
    assert "me" not in shown


def helper(home: Path, name: str, script: str) -> str:
    """Write a credential helper, and return the PATH that contains it."""
    file = write(home / "bin" / f"docker-credential-{name}", f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return f"{file.parent}:{os.environ['PATH']}"


@pytest.fixture
def asked_helper(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real credential helper, which returns the name of the requested server as the password."""
    script = f'read -r server; echo "$1 $server" >>{home}/asked; printf \'{{"Username":"h","Secret":"%s"}}\' "$server"'
    monkeypatch.setenv("PATH", helper(home, "mine", script))
    return home / "asked"


@pytest.mark.parametrize(
    ("content", "asked"),
    [
        ({"credHelpers": {HOST: "mine"}}, HOST),
        ({"credHelpers": {f"{HOST}/group": "mine"}}, f"{HOST}/group"),
        ({"credsStore": "mine", "auths": {HOST: {}}}, HOST),
        ({"credsStore": "mine"}, HOST),
    ],
)
def test_a_credential_helper_is_asked(home: Path, asked_helper: Path, content: Any, asked: str) -> None:
    docker(home, content)
    assert find(home) == Credentials("docker-credential-mine", "h", asked)
    assert asked_helper.read_text() == f"get {asked}\n"


def test_a_helper_gets_docker_hubs_old_name(home: Path, asked_helper: Path) -> None:
    docker(home, {"credsStore": "mine"})
    find(home, "docker.io", "library/debian")
    assert asked_helper.read_text() == "get https://index.docker.io/v1/\n"


def test_a_helper_of_an_entry_goes_before_the_store_and_the_store_after_all_files(
    home: Path, asked_helper: Path
) -> None:
    docker(home, {"credsStore": "none-such", "credHelpers": {"other": "mine"}, "auths": {HOST: auth()}})
    assert find(home) == Credentials(str(home / ".docker/config.json"), "me", "secret")
    assert find(home, "other", "x") is not None


def test_a_helpers_token_is_an_identity_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = 'printf \'{"Username":"<token>","Secret":"long"}\''
    monkeypatch.setenv("PATH", helper(home, "mine", script))
    docker(home, {"credsStore": "mine"})
    assert find(home) == Credentials("docker-credential-mine", identity_token="long")  # noqa: S106


@pytest.mark.parametrize("script", ["exit 1", None], ids=["has none", "is not here"])
def test_a_helper_that_gives_nothing_is_not_a_login(
    home: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    if script:
        monkeypatch.setenv("PATH", helper(home, "mine", script))
    docker(home, {"credsStore": "mine"})
    assert find(home) is None


@pytest.mark.parametrize("answer", ["", "secret", "[]", '{"Username":"h"}', '{"Username":"h","Secret":1}'])
def test_a_helpers_nonsense_is_an_error_that_does_not_show_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setenv("PATH", helper(home, "mine", f"printf '%s' '{answer}'"))
    docker(home, {"credsStore": "mine"})
    with pytest.raises(BadInputError, match="its answer is not a login") as caught:
        find(home)
    assert "secret" not in str(caught.value)
