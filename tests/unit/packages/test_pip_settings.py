from __future__ import annotations

from pathlib import Path

from hpcmod.packages.pip_settings import find_settings


def test_files_that_pips_settings_name_are_found(tmp_path: Path) -> None:
    for name in ("mirror/simple", "wheels", "own", ".config/pip"):
        (tmp_path / name).mkdir(parents=True)
    certificate, conf = tmp_path / "site.pem", tmp_path / ".config/pip/pip.conf"
    certificate.touch()
    conf.write_text(
        f"[global]\ncert = {certificate}\nlog = {conf}\n[install]\nfind-links = {tmp_path}/own\n  /missing\n"
    )
    environ = {
        "HOME": str(tmp_path),
        "PIP_EXTRA_INDEX_URL": f"https://example.org/simple file://{tmp_path}/mirror/simple",
        "PIP_FIND_LINKS": f"{tmp_path}/wheels /nowhere",
        "PIP_CACHE_DIR": str(tmp_path),
    }
    named = [path for path in find_settings(environ) if path.startswith(str(tmp_path))]
    assert sorted(named) == sorted(
        map(str, (conf, certificate, tmp_path / "mirror", tmp_path / "wheels", tmp_path / "own"))
    )
