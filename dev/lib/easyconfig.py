"""Write the easyconfig of hpcmod itself: easyconfig.py WHEEL DIRECTORY EASYCONFIG; needs pip, packaging.

It lists the files that pip would install for each Python and processor, with their checksums. DIRECTORY gets those for
this Python, for an `eb` that cannot download them. PYPI_SOURCE is EasyBuild's.
"""

import hashlib
import json
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PROCESSORS = ("x86_64", "aarch64")
FROM_SOURCE = "easybuild-framework"
"""It has no wheel; pip builds it with setuptools."""

TEXT = """\
# Written by dev/release. pip puts these files into an environment of the Python that runs eb, and asks no index.
easyblock = 'Binary'

name = 'hpcmod'
version = '{version}'

homepage = '(none)'
description = "{description}"

toolchain = SYSTEM

local_files = {{
    # project, sha256
{files}
}}
local_sets = {{
{sets}
}}

import sys as local_sys
import platform as local_platform

local_here = '%d.%d ' % local_sys.version_info[:2] + local_platform.machine()
if local_here not in local_sets:
    raise ValueError('hpcmod needs Python {first} to {last}, found ' + local_here + ': set EB_PYTHON to another one')

sources = ['{wheel}']
checksums = ['{sha256}']
for local_file in local_sets[local_here].split():
    local_project, local_sum = local_files[local_file]
    local_urls = [PYPI_SOURCE % {{'nameletter': local_project[0], 'name': local_project}}]
    sources.append({{'filename': local_file, 'source_urls': local_urls}})
    checksums.append(local_sum)

extract_sources = False
prepend_to_path = []
install_cmds = [
    local_sys.executable + ' -m venv %(installdir)s/venv',
    '%(installdir)s/venv/bin/python -m pip install --no-index --find-links . hpcmod==%(version)s',
    '%(installdir)s/venv/bin/hpcmod site setup --output %(installdir)s/site',
]

sanity_check_paths = {{
    'files': ['site/bin/hpcmod', 'site/modules/hpcmod/%(version)s.lua', 'venv/share/man/man1/hpcmod.1'],
    'dirs': [],
}}
sanity_check_commands = ['hpcmod --version']

# what `hpcmod site setup` wrote: eb finds hpcmod, and stays the site's; it warns of loaded modules that set EBROOT
modluafooter = '''
unsetenv("EBROOTHPCMOD")
loadfile(pathJoin(root, "site/modules/hpcmod/%(version)s.lua"))()
'''
modtclfooter = '''
unsetenv EBROOTHPCMOD
source $root/site/modules/hpcmod/%(version)s
'''

moduleclass = 'tools'
"""


def ask_pip(*words: str) -> dict[str, tuple[str, str, str]]:
    """Return what pip would install: project, sha256 and address of each file."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.json")
        options = ["--dry-run", "--ignore-installed", "--target", place, "--report", str(report)]
        run_pip("install", *options, *words)
        found = json.loads(report.read_text())["install"]
    files = {}
    for each in found:
        project, source = re.sub("[-_.]+", "-", each["metadata"]["name"]).lower(), each["download_info"]
        url = source["url"]
        files[url.rpartition("/")[2]] = (project, source["archive_info"]["hashes"]["sha256"], url)
    return files


def run_pip(*words: str) -> None:
    """Run pip; what it prints goes to stderr."""
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *words], check=True, stdout=sys.stderr)


def main() -> None:
    """Write the easyconfig of a wheel."""
    wheel, directory, easyconfig = map(Path, sys.argv[1:])
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(name).decode().partition("\n\n")[0].splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    needs = [Requirement(line.partition(": ")[2]) for line in lines if line.startswith("Requires-Dist")]
    (framework,) = (need for need in needs if need.name == FROM_SOURCE)
    files = ask_pip("--no-deps", "--no-binary", FROM_SOURCE, f"{framework.name}{framework.specifier}")
    common, sets = tuple(files), {}
    for python in PYTHONS:
        for processor in PROCESSORS:
            options = ["--platform", f"manylinux_2_17_{processor}", "--platform", f"manylinux2014_{processor}"]
            options += ["--only-binary", ":all:", "--python-version", python]
            there = {"python_version": python, "extra": ""}  # pip would apply markers to this Python
            wheels = [need for need in needs if need != framework and (not need.marker or need.marker.evaluate(there))]
            found = ask_pip(*options, *(f"{need.name}{need.specifier}" for need in wheels), "setuptools")
            files.update(found)
            sets[f"{python} {processor}"] = sorted((*common, *found))
    here = sets[f"{sys.version_info.major}.{sys.version_info.minor} {platform.machine()}"]
    run_pip("download", "--no-deps", "--dest", str(directory), *(files[name][2] for name in here))
    text = TEXT.format(
        version=fields["Version"],
        description=fields["Summary"],
        files="\n".join(f"    {name!r}: {files[name][:2]!r}," for name in sorted(files)),
        sets="\n".join(f"    {key!r}: {' '.join(names)!r}," for key, names in sets.items()),
        first=PYTHONS[0],
        last=PYTHONS[-1],
        wheel=wheel.name,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
    )
    easyconfig.write_text(text)


if __name__ == "__main__":
    main()
