"""Make the man pages and the JSON Schemas of files while pip builds hpcmod; setup.cfg has everything else."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build import build


class Build(build):
    """Build the packages, then the man pages and schemas, from the code of this checkout."""

    def run(self) -> None:
        """Write the pages and schemas, and add the pages to the files that are installed."""
        super().run()
        sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))
        from hpcmod.core.cli.reference.man import man_pages
        from hpcmod.core.cli.reference.schemas import file_schemas

        schemas = Path(self.build_lib) / "hpcmod" / "schemas"
        schemas.mkdir(parents=True, exist_ok=True)
        for name, schema in file_schemas().items():
            (schemas / name).write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
        directory = Path(self.build_temp) / "man"
        directory.mkdir(parents=True, exist_ok=True)
        pages = man_pages()
        for name, text in pages.items():
            (directory / name).write_text(text, encoding="utf-8")
        self.distribution.data_files = [("share/man/man1", [str(directory / name) for name in pages])]


def options() -> dict[str, dict[str, str]]:
    """Return where to build: of a checkout that is not writable, in a temporary directory."""
    top = Path(__file__).resolve().parent
    if os.access(top, os.W_OK) and os.access(top / "src", os.W_OK):
        return {}
    elsewhere = tempfile.mkdtemp(prefix="hpcmod-build-")
    atexit.register(shutil.rmtree, elsewhere, ignore_errors=True)
    return {"egg_info": {"egg_base": elsewhere}, "build": {"build_base": elsewhere}}


setup(cmdclass={"build": Build}, options=options())
