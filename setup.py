"""Make the man pages and the JSON Schemas of files while pip builds hpcmod; setup.cfg has everything else."""

from __future__ import annotations

import json
import sys
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


setup(cmdclass={"build": Build})
