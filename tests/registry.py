"""A real registry (Debian's docker-registry) on loopback, and functions to push images to it."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

PROGRAM = "docker-registry"
USER, PASSWORD = "tester", "correct horse battery staple"
# bcrypt hash of PASSWORD, the only format that the registry accepts; made with `htpasswd -nbB`
HTPASSWD = f"{USER}:$2y$05$7aIotD.5q8Cv9Q8XqrLSJ.bPfQLVzTPfqdIz86j2tTJ8IQEZolEYG\n"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
_WAIT = 30.0  # seconds to wait for the program to start


@dataclass(frozen=True)
class Registry:
    """A running registry."""

    host: str
    """Host name and port, as in a reference."""
    directory: Path
    scheme: str = "http"
    auth: tuple[str, str] | None = None
    ca: Path | None = None
    """Certificate of the authority that signed the server's; None for plain http."""

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        """Send a request to its API; raises requests.HTTPError for an error status."""
        url = path if "://" in path else f"{self.scheme}://{self.host}{path}"
        verify = str(self.ca) if self.ca else True
        answer = requests.request(method, url, auth=self.auth, verify=verify, timeout=60, **options)
        answer.raise_for_status()
        return answer

    def push_blob(self, repository: str, content: bytes, media_type: str = LAYER) -> dict[str, Any]:
        """Push a blob and return its descriptor."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        place = self.ask("POST", f"/v2/{repository}/blobs/uploads/").headers["Location"]
        self.ask("PUT", place, params={"digest": digest}, data=content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def push_manifest(self, repository: str, tag: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Push a manifest or an index and return its descriptor; without a tag, push it by digest."""
        text = json.dumps(manifest).encode()
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        kind = {"Content-Type": manifest["mediaType"]}
        self.ask("PUT", f"/v2/{repository}/manifests/{tag or digest}", data=text, headers=kind)
        return {"mediaType": manifest["mediaType"], "digest": digest, "size": len(text)}

    def push_image(
        self, repository: str, layers: Sequence[bytes], *, tag: str = "1", architecture: str = "amd64", **config: Any
    ) -> dict[str, Any]:
        """Push an image with these bytes as layers, declared as plain tar; return the descriptor of its manifest."""
        blobs = [self.push_blob(repository, layer) for layer in layers]
        about = {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [blob["digest"] for blob in blobs]},
        }
        described = self.push_blob(repository, json.dumps(about).encode(), CONFIG)
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": blobs}
        return self.push_manifest(repository, tag, manifest)

    def push_layout(self, layout: Path, repository: str, tag: str) -> dict[str, Any]:
        """Push the only image, or index, of an OCI image layout."""
        entry = json.loads((layout / "index.json").read_text())["manifests"][0]
        return {**entry, **self._push_tree(layout, entry, repository, tag)}

    def _push_tree(self, layout: Path, entry: Mapping[str, Any], repository: str, tag: str) -> dict[str, Any]:
        text = (layout / "blobs" / entry["digest"].replace(":", "/")).read_bytes()
        manifest = json.loads(text)
        for inner in manifest.get("manifests", []):
            self._push_tree(layout, inner, repository, inner["digest"])
        for blob in [manifest["config"], *manifest["layers"]] if "config" in manifest else []:
            content = (layout / "blobs" / blob["digest"].replace(":", "/")).read_bytes()
            self.push_blob(repository, content, blob["mediaType"])
        kind = {"Content-Type": entry["mediaType"]}
        self.ask("PUT", f"/v2/{repository}/manifests/{tag}", data=text, headers=kind)
        return {"mediaType": entry["mediaType"], "digest": entry["digest"], "size": len(text)}


def why_no_registry() -> str:
    """Return why tests that need the registry cannot run here; empty if they can."""
    return "" if shutil.which(PROGRAM) else f"no {PROGRAM}: run dev/stack registry"


@contextmanager
def run_registry(directory: Path, *, login: bool = False, certificate: Certificate | None = None) -> Iterator[Registry]:
    """Run a registry on a free port until the end of the block, optionally with a login or a certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    host = f"127.0.0.1:{free_port()}"
    config = directory / "config.yml"
    config.write_text(json.dumps(_configure(directory, host, login=login, certificate=certificate)))  # JSON is YAML
    with (directory / "log").open("wb") as log:
        program = subprocess.Popen([PROGRAM, "serve", str(config)], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        _await_port(host, program, directory / "log")
        yield Registry(
            host.replace("127.0.0.1", "localhost") if certificate else host,
            directory,
            scheme="https" if certificate else "http",
            auth=(USER, PASSWORD) if login else None,
            ca=certificate.authority if certificate else None,
        )
    finally:
        program.kill()
        program.wait()


def _configure(directory: Path, host: str, *, login: bool, certificate: Certificate | None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "version": "0.1",
        "log": {"level": "info"},
        "storage": {"filesystem": {"rootdirectory": str(directory / "data")}, "delete": {"enabled": True}},
        "http": {"addr": host, "secret": "for tests", "relativeurls": True},
    }
    if login:
        (directory / "htpasswd").write_text(HTPASSWD)
        config["auth"] = {"htpasswd": {"realm": "tests", "path": str(directory / "htpasswd")}}
    if certificate:
        config["http"]["tls"] = {"certificate": str(certificate.file), "key": str(certificate.key)}
    return config


def free_port() -> int:
    """Find a port that no process listens on now."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _await_port(host: str, program: subprocess.Popen[bytes], log: Path) -> None:
    name, _, port = host.partition(":")
    until = time.monotonic() + _WAIT
    while time.monotonic() < until and program.poll() is None:
        try:
            socket.create_connection((name, int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{PROGRAM} did not start:\n{log.read_text(errors='replace')}")


@dataclass(frozen=True)
class Certificate:
    """A server certificate for localhost, its key, and the certificate of the throw-away authority."""

    file: Path
    key: Path
    authority: Path


def make_certificate(directory: Path) -> Certificate:
    """Make a throw-away authority, and a certificate for localhost signed by it."""
    directory.mkdir(parents=True, exist_ok=True)
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    authority = [*new, "-x509", "-days", "2", "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem"]
    request = [*new, "-subj", "/CN=localhost", "-addext", names, "-keyout", "key.pem", "-out", "request.pem"]
    sign = ["openssl", "x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"]
    (directory / "names").write_text(names)
    sign += ["-CAcreateserial", "-extfile", "names", "-out", "cert.pem"]
    for argv in (authority, request, sign):
        subprocess.run(argv, cwd=directory, check=True, capture_output=True)
    return Certificate(directory / "cert.pem", directory / "key.pem", directory / "ca.pem")
