"""Parsers of external input in importing/, for tests.fuzz."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcmod.importing.edf import convert_edf
from hpcmod.importing.edf_files import EdfPath, read_edf
from hpcmod.importing.lumi_eb import convert_easyconfig
from hpcmod.importing.ngc import convert_module
from hpcmod.importing.outcome import ImportedEasyconfig
from hpcmod.importing.shpc import convert_recipe
from hpcmod.importing.values.container_yaml import parse_container_yaml
from hpcmod.modules.text.easyconfig import render_easyconfig
from tests.foreign_recipes import EDF, EDF_BASE, LUMI, NGC, ODD_ALIASES, SAMTOOLS
from tests.fuzz.mutations import mutate
from tests.fuzz.reader import Reader, reader, text_of, texts


def _import_lumi(data: bytes) -> None:
    path = Path("x.eb")
    render_easyconfig(convert_easyconfig(text_of(data), path).easyconfig)


def _import_shpc(data: bytes) -> None:
    path = Path("/x/container.yaml")
    for outcome in convert_recipe(parse_container_yaml(text_of(data), "x"), path):
        if isinstance(outcome, ImportedEasyconfig):
            render_easyconfig(outcome.easyconfig)


def _import_ngc(data: bytes) -> None:
    render_easyconfig(convert_module(text_of(data), Path("/x/pytorch/1.lua")).easyconfig)


@reader("environment definition file")
def _edf(directory: Path) -> Iterator[Reader]:
    (directory / "common.toml").write_text(EDF_BASE)

    def read(data: bytes) -> None:
        path = directory / "x.toml"
        edf = read_edf(text_of(data), path, EdfPath((directory,), directory))
        render_easyconfig(convert_edf(edf, path).easyconfig)

    yield Reader(read, lambda dice: mutate(dice, dice.choice((EDF.encode(), EDF_BASE.encode()))))


texts("easyconfig of LUMI", _import_lumi, [LUMI.encode()])
texts("container.yaml of shpc", _import_shpc, [SAMTOOLS.encode(), ODD_ALIASES.encode()])
texts("module of NGC", _import_ngc, [NGC.encode()])
