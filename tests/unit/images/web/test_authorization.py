from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmod.core.errors import HpcmodError, RemoteError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.web.authorization import Authorizer, parse_challenges, read_limited
from hpcmod.images.web.client import Answer, Client, LoginError
from hpcmod.images.web.credentials import Access, Credentials

REALM = "https://auth.example.org/token"


class NoClient(Client):
    """A client that fails if it is used."""

    def __init__(self) -> None:
        pass


def authorizer(credentials: Credentials | None, *, secure: bool = True, client: Client | None = None) -> Authorizer:
    access = Access(find_credentials=lambda *_: credentials)
    return Authorizer(
        client or NoClient(), ImageReference.parse("docker://host.io/x:1"), access, scope="pull", secure=secure
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Bearer realm="a",service="b",scope="c:d:e,f"',
            [("bearer", {"realm": "a", "service": "b", "scope": "c:d:e,f"})],
        ),
        ('bEARER REALM = "a" , service=b', [("bearer", {"realm": "a", "service": "b"})]),
        (r'Basic realm="a \"quoted\" \\ word"', [("basic", {"realm": r'a "quoted" \ word'})]),
        ('Basic realm="a", Basic realm="b"', [("basic", {"realm": "a"})]),
        ('Basic realm="a", Bearer realm="b"', [("basic", {"realm": "a"}), ("bearer", {"realm": "b"})]),
        ('Negotiate, Basic realm="a"', [("negotiate", {}), ("basic", {"realm": "a"})]),
        ("Basic", [("basic", {})]),
        ("", []),
        ("=", []),
        (' , ,Basic realm=""', [("basic", {"realm": ""})]),
        ('Bearer realm="never ends', [("bearer", {})]),
        ("Bearer realm=\u00e4", [("bearer", {})]),
    ],
)
def test_challenges_are_parsed_as_http_writes_them(text: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert list(parse_challenges(text).items())[: len(expected)] == expected


@pytest.mark.parametrize("piece", ['a="', "a=\\", "a ", 'Basic a="b', ' , a="\\"', "\\"])
def test_a_long_and_broken_header_names_no_scheme_that_is_not_in_it(piece: str) -> None:
    assert all(scheme in piece.lower() for scheme in parse_challenges(piece * 20_000))


@settings(max_examples=400, deadline=None)
@given(
    st.text(max_size=80)
    | st.lists(
        st.sampled_from(["Bearer ", "Basic ", 'realm="', '"', "=", ",", " ", "https://x/", "http://x", "\\", "scope=x"])
    ).map("".join)
)
def test_any_server_demand_gives_our_error_only(text: str) -> None:
    for credentials in (None, Credentials("file", "me", "secret"), Credentials("file", registry_token="t")):  # noqa: S106
        login = authorizer(credentials)
        try:
            login.answer(LoginError("said", "", text), "")
        except HpcmodError as err:
            assert "secret" not in str(err)
        except AttributeError as err:
            assert "_session" in str(err)


@pytest.mark.parametrize(
    ("challenge", "credentials", "header"),
    [
        ('Basic realm="x"', Credentials("file", "me", "secret"), "Basic bWU6c2VjcmV0"),
        ('Basic realm="x", Bearer realm="y"', Credentials("file", registry_token="abc"), "Bearer abc"),  # noqa: S106
    ],
)
def test_a_login_is_put_as_the_challenge_wants_it(challenge: str, credentials: Credentials, header: str) -> None:
    login = authorizer(credentials)
    assert login.header == ""
    login.answer(LoginError("said", "", challenge), "")
    assert login.header == header


def test_a_login_that_another_thread_has_renewed_meanwhile_is_not_renewed_again() -> None:
    login = authorizer(Credentials("file", "me", "secret"))
    login.answer(LoginError("said", "", "Basic"), "")
    login.answer(LoginError("said", "", "Negotiate"), "an older header")
    assert login.header.startswith("Basic ")


def test_a_password_that_is_refused_is_not_shown_again() -> None:
    login = authorizer(Credentials("the file", "me", "secret"))
    login.answer(LoginError("said", "", "Basic"), "")
    with pytest.raises(LoginError, match="rejected the login from the file"):
        login.answer(LoginError("said", "", "Basic"), login.header)


@pytest.mark.parametrize("challenge", ["", "Negotiate", 'Digest realm="x"'])
def test_a_login_of_another_kind_is_reported(challenge: str) -> None:
    with pytest.raises(RemoteError, match="unsupported kind of login"):
        authorizer(None).answer(LoginError("said", "", challenge), "")


@pytest.mark.parametrize("realm", ["http://auth.example.org/token", "ftp://x/y", "", "file:///etc/passwd", "http://["])
def test_a_password_goes_to_no_token_server_that_could_not_be_trusted(realm: str) -> None:
    for secure in (True, False):
        login = authorizer(Credentials("file", "me", "secret"), secure=secure)
        with pytest.raises(HpcmodError):
            login.answer(LoginError("", "", f'Bearer realm="{realm}"'), "")


def test_a_registry_with_a_certificate_has_its_tokens_given_over_https() -> None:
    with pytest.raises(RemoteError, match="uses plain http, which is not allowed"):
        authorizer(None).answer(LoginError("", "", 'Bearer realm="http://localhost/token"'), "")


class TokenServer(NoClient):
    """A client that gets the same answer from every server."""

    def __init__(self, text: str) -> None:
        self.text = text

    @contextmanager
    def get(self, *_: object, **__: object) -> Iterator[Answer]:
        yield Answer(200, None, 0, bounded=True, validator="", chunks=iter([self.text.encode()]))


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ('{"token": "abc"}', "abc"),
        ('{"access_token": "abc", "token": ""}', "abc"),
        *((text, None) for text in ("", "{}", "[]", '{"token": ""}', '{"token": 7}', '{"token": ["abc"]}', "[" * 9999)),
    ],
)
def test_the_answer_of_a_token_server_has_a_token_or_is_an_error(text: str, token: str | None) -> None:
    login = authorizer(None, client=TokenServer(text))
    challenge = LoginError("", "", f'Bearer realm="{REALM}"')
    if token:
        login.answer(challenge, "")
        assert login.header == f"Bearer {token}"
    else:
        with pytest.raises(RemoteError, match="contains no token"):
            login.answer(challenge, "")


def test_an_answer_that_must_be_small_is_not_read_on() -> None:
    with pytest.raises(RemoteError, match="more than 10 bytes"):
        read_limited(iter([b"x" * 6] * 1000), 10, "it")
