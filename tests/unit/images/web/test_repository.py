from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import requests

from hpcmod.core.errors import BadInputError, HpcmodError, NotFoundError, RemoteError, VerificationError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.cache import Cache
from hpcmod.images.values.oci import CONFIG_LIMIT, MANIFEST_LIMIT, OciDescriptor
from hpcmod.images.web import client
from hpcmod.images.web.credentials import Access, Credentials
from hpcmod.images.web.repository import Repository
from hpcmod.images.web.upload import Counted, WritableRepository
from tests.fault_proxy import Fault, Proxy, run_proxy
from tests.registry import INDEX, PASSWORD, USER, Registry, make_certificate, run_registry, why_no_registry

pytestmark = pytest.mark.slow

NAME = "repository/image"


@pytest.fixture
def pushed(registry: Registry) -> dict[str, Any]:
    return registry.push_image(NAME, [b"layer"], Env=["A=1"])


@pytest.fixture
def proxy(registry: Registry, pushed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the registry; waits are short."""
    monkeypatch.setattr(client, "FIRST_WAIT", 0.01)
    with run_proxy(registry.host) as running:
        yield running


def nobody(_registry: str, _repository: str) -> None:
    return None


def somebody(_registry: str, _repository: str) -> Credentials:
    return Credentials("a test", USER, PASSWORD)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with closing(requests.Session()) as session:
        yield session


def at(host: str, session: requests.Session, **access: Any) -> Repository:
    access = {"find_credentials": nobody, **access}
    return Repository(ImageReference.parse(f"docker://{host}/{NAME}:1"), session, Access(**access))


def refusal(repository: Repository, name: str = "1") -> HpcmodError:
    with pytest.raises(HpcmodError) as caught:
        repository.manifest(name)
    assert "\n" not in caught.value.message
    return caught.value


def test_a_manifest_is_read_by_tag_and_by_digest(
    registry: Registry, pushed: dict[str, Any], session: requests.Session
) -> None:
    digest, text = at(registry.host, session).manifest("1")
    assert digest == pushed["digest"] == f"sha256:{hashlib.sha256(text).hexdigest()}"
    assert at(registry.host, session).manifest(digest) == (digest, text)


@pytest.mark.parametrize("status", [200, 404, 405])
def test_what_refers_to_an_image_is_read_from_its_list_or_an_older_registrys_tag(
    registry: Registry, proxy: Proxy, pushed: dict[str, Any], session: requests.Session, status: int
) -> None:
    image = registry.push_image(NAME, [b"referred to", str(status).encode()], tag="other")["digest"]
    listed = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**pushed, "digest": f"sha256:{'f' * 64}"}]}
    assert at(registry.host, session).referrers(image) == ()
    registry.push_manifest(NAME, image.replace(":", "-"), {**listed, "manifests": [pushed]})
    proxy.faults.append(Fault("/referrers/", status=status, body=json.dumps(listed).encode()))
    (found,) = at(proxy.host, session).referrers(image)
    assert found.digest == (f"sha256:{'f' * 64}" if status == 200 else pushed["digest"])


def test_a_configuration_is_read_by_its_descriptor(proxy: Proxy, session: requests.Session) -> None:
    repository = at(proxy.host, session)
    described = json.loads(repository.manifest("1")[1])["config"]
    blob = OciDescriptor(described["mediaType"], described["digest"], described["size"])
    assert json.loads(repository.config(blob))["config"] == {"Env": ["A=1"]}
    with pytest.raises(BadInputError, match=f"its configuration has {CONFIG_LIMIT + 1} bytes"):
        repository.config(OciDescriptor(blob.media_type, blob.digest, CONFIG_LIMIT + 1))


def test_a_cached_digest_is_requested_once_but_a_tag_each_time(
    proxy: Proxy, session: requests.Session, tmp_path: Path
) -> None:
    cache, repository = Cache(tmp_path / "cache"), at(proxy.host, session)
    digest, _ = repository.manifest("1", cache)
    asked = len(proxy.asked)
    assert repository.manifest(digest, cache)[0] == digest
    assert len(proxy.asked) == asked
    repository.manifest("1", cache)
    assert len(proxy.asked) == asked + 1


def test_the_registry_is_looked_for_once(proxy: Proxy, session: requests.Session) -> None:
    repository = at(proxy.host, session)
    for _ in range(3):
        repository.manifest("1")
    assert [asked.path for asked in proxy.asked].count("/v2/") == 1


def test_a_part_of_a_blob_can_be_asked_for(
    registry: Registry, pushed: dict[str, Any], session: requests.Session
) -> None:
    digest = f"sha256:{hashlib.sha256(b'layer').hexdigest()}"
    with at(registry.host, session).ask(f"blobs/{digest}", {"Range": "bytes=2-"}) as answer:
        assert (answer.status, answer.start, b"".join(answer.chunks)) == (206, 2, b"yer")


def test_a_missing_file_is_not_found(proxy: Proxy, session: requests.Session) -> None:
    for name in ("none", "sha256:" + "0" * 64):
        fault = refusal(at(proxy.host, session), name)
        assert (type(fault), fault.exit_code) == (NotFoundError, 3)
        assert f"{proxy.host} has no such image" in fault.message
        assert "Check the name and tag" in fault.cure


@pytest.mark.parametrize("said", ["", "sha256:" + "0" * 64, "sha512:" + "0" * 128])
def test_the_registrys_digest_is_compared_with_the_content(
    proxy: Proxy, session: requests.Session, said: str, pushed: dict[str, Any]
) -> None:
    proxy.faults = [Fault("/manifests/", headers={"Docker-Content-Digest": said})]
    if said.startswith("sha256"):
        fault = refusal(at(proxy.host, session))
        assert (type(fault), fault.exit_code) == (VerificationError, 4)
        assert f"expected {said}" in fault.message
        assert "proxy" in fault.cure
    else:
        assert at(proxy.host, session).manifest("1")[0] == pushed["digest"]


def test_failed_requests_are_retried(proxy: Proxy, session: requests.Session) -> None:
    proxy.faults = [Fault("/manifests/", cut_at=20), Fault("/manifests/", status=503)]
    assert at(proxy.host, session).manifest("1")


@pytest.mark.parametrize(
    ("fault", "said", "cure"),
    [
        pytest.param(
            Fault("/manifests/", status=200, body=b" " * (MANIFEST_LIMIT + 1)),
            f"more than {MANIFEST_LIMIT} bytes",
            "",
            id="an answer without an end",
        ),
        pytest.param(Fault("/manifests/", times=100, status=503), "503", "Run this again later", id="503 each time"),
        pytest.param(Fault("/v2/$", times=100, status=404), "not a registry", "Check its name.", id="no registry"),
        pytest.param(
            Fault("/manifests/", times=100, status=403), "403", "your login has read access", id="a refused login"
        ),
    ],
)
def test_a_registry_that_does_not_answer_as_it_must_is_reported(
    proxy: Proxy, session: requests.Session, fault: Fault, said: str, cure: str
) -> None:
    proxy.faults = [fault]
    error = refusal(at(proxy.host, session))
    assert isinstance(error, RemoteError)
    assert error.exit_code == 8
    assert said in error.message
    assert cure in error.cure


def test_a_wait_requested_by_a_registry_is_reported(
    proxy: Proxy, session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    told: list[str] = []
    monkeypatch.setattr("hpcmod.images.web.repository.time.sleep", waited.append)
    proxy.faults = [Fault("/manifests/", status=429, headers={"Retry-After": "30"})]
    reference = ImageReference.parse(f"docker://{proxy.host}/{NAME}:1")
    Repository(reference, session, Access(find_credentials=nobody, announce=told.append)).manifest("1")
    assert waited == [30]
    assert [line for line in told if "30 s, as the server asks to wait 30 s" in line]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that requires a login, over HTTPS with a certificate of a private authority."""
    if why_no_registry():
        pytest.skip(why_no_registry())
    place = tmp_path_factory.mktemp("locked")
    with run_registry(place, login=True, certificate=make_certificate(place / "certificate")) as running:
        running.push_image(NAME, [b"layer"])
        yield running


def test_a_login_is_found_and_used_and_required(
    locked: Registry, session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(locked.ca))
    assert at(locked.host, session, find_credentials=somebody).manifest("1")
    for found, says in (
        (nobody, f"apptainer registry login docker://{locked.host}"),
        (lambda *_: Credentials("a test", USER, "wrong"), "rejected the login"),
    ):
        fault = refusal(at(locked.host, session, find_credentials=found))
        assert (fault.exit_code, says in str(fault)) == (8, True)
        assert PASSWORD not in str(fault)


def test_a_blob_is_sent_whole_again_after_its_login_expired(
    locked: Registry, session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(locked.ca))
    reference = ImageReference.parse(f"docker://{locked.host}/{NAME}:1")
    repository = WritableRepository(reference, session, Access(find_credentials=somebody))
    place = repository.send("POST", "blobs/uploads/", {}, b"")["Location"]
    content = b"x" * 100_000
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    monkeypatch.setattr(repository._found()[1], "header", "Bearer expired")
    monkeypatch.setattr(client, "_SEND_TIMEOUT", (5.0, 5.0))  # the registry waits for what is not sent
    repository.send("PUT", f"{place}&digest={digest}", {}, Counted(BytesIO(content), len(content), None))
    assert repository.has_blob(digest)


def test_a_certificate_of_an_unknown_authority_is_refused(locked: Registry, session: requests.Session) -> None:
    fault = refusal(at(locked.host, session, find_credentials=somebody))
    assert (type(fault), fault.exit_code) == (RemoteError, 8)
    assert "certificate cannot be verified" in fault.message
    assert "REQUESTS_CA_BUNDLE" in fault.cure
