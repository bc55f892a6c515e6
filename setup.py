"""Make the man pages while pip builds hpcmod; setup.cfg has everything else."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build import build


class Build(build):
    """Build the packages, then the man pages, from the commands of this checkout."""

    def run(self) -> None:
        """Write the pages, and add them to the files that are installed."""
        super().run()
        sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))
        from hpcmod.core.cli.reference.man import man_pages

        directory = Path(self.build_temp) / "man"
        directory.mkdir(parents=True, exist_ok=True)
        pages = man_pages()
        for name, text in pages.items():
            (directory / name).write_text(text, encoding="utf-8")
        self.distribution.data_files = [("share/man/man1", [str(directory / name) for name in pages])]


setup(cmdclass={"build": Build})
