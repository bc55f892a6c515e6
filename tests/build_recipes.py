"""Build recipes of other tools: at least one for each row of the tables in docs/reference/import-builds.md."""

from __future__ import annotations

from pathlib import Path

from tests.foreign_recipes import write_tree

FROM = "FROM debian:12\n"
RUN = f"{FROM}RUN true\n"

DOCKERFILES = {
    "`FROM IMAGE`": [RUN, "FROM quay.io/a/b:1\nRUN true\n", "FROM debian\nRUN true\n"],
    "... `--platform=linux/amd64`": ["FROM --platform=linux/amd64 debian:12\nRUN true\n"],
    "`FROM STAGE`, where the other stages only add to one another": [
        "FROM debian:12 AS one\nRUN true\nFROM one AS two\nRUN true\nFROM two\nRUN true\n"
    ],
    "`COPY --from=`, `ADD --from=`": [
        "FROM debian:12 AS one\nRUN true\nFROM debian:12\nCOPY --from=one /a /b\n",
        f"{FROM}COPY --from=docker.io/a/b:1 /a /b\n",
    ],
    "a stage that the last one does not use": ["FROM debian:11 AS one\nRUN true\nFROM debian:12\nRUN true\n"],
    "`ARG NAME=VALUE`": [
        f"{FROM}ARG VERSION=1.0 OTHER=2\nRUN echo $VERSION\n",
        "ARG TAG=12\nFROM debian:${TAG}\nARG TAG\nRUN echo $TAG\n",
    ],
    "... in the value of another instruction than `RUN` and `FROM`": [
        f"{FROM}ARG VERSION=1.0\nENV V=$VERSION\nRUN true\n",
        f"{FROM}ARG PLACE=/x\nWORKDIR $PLACE\nRUN true\n",
    ],
    "... without a default": [f"{FROM}ARG VERSION\nRUN true\n"],
    "... with a value that a recipe cannot have, such as quotes": [f'{FROM}ARG TEXT="it\'s"\nRUN true\n'],
    "`ENV`": [f"{FROM}ENV A=1 B='two words'\nENV C three words\nENV D=$A/x\nRUN true\n"],
    "... `PATH=DIR:$PATH`, `LD_LIBRARY_PATH` likewise": [
        f"{FROM}ENV PATH=/opt/x/bin:/opt/y:$PATH\nENV LD_LIBRARY_PATH /opt/x/lib:${{LD_LIBRARY_PATH}}\nRUN true\n",
        f"{FROM}ENV HOME_OF_X=/opt/x\nENV PATH=$HOME_OF_X/bin:$PATH\nRUN true\n",
    ],
    "... with quotes, `$`, `;` and the like in the value": [
        f'{FROM}ENV A="it\'s"\nRUN true\n',
        f"{FROM}ENV A=$HOME/x\nRUN true\n",
        f"{FROM}ENV A='$HOME'\nRUN true\n",
    ],
    "`RUN`, also as a list of words, and with here-documents": [
        f'{FROM}RUN ["touch", "/a b"]\nRUN a && \\\n  # comment\n  b\n',
        f"{FROM}RUN <<EOF\ncd /\npwd\nEOF\nRUN cat <<E >/x\n$A\nE\n",
    ],
    "... `--mount=type=cache`, `--network`, `--security`": [
        f"{FROM}RUN --mount=type=cache,target=/c true\n",
        f"{FROM}RUN --network=none true\n",
    ],
    "... `--mount=type=bind`, `secret`, `ssh`": [f"{FROM}RUN --mount=type=secret,id=x true\n"],
    "... a here-document for another interpreter": [f"{FROM}RUN <<EOF\n#!/usr/bin/python3\nprint()\nEOF\n"],
    "`COPY`, `ADD` of files and directories, `--chmod`, `--link`": [
        f'{FROM}COPY a.txt b /to/\nADD --chmod=755 --link a.txt x.tar.gz /to/\nCOPY ["a.txt", "/to"]\nCOPY . /all\n'
    ],
    "... patterns": [f"{FROM}COPY *.txt /to/\n"],
    "... a here-document": [f"{FROM}COPY <<EOF /a.txt\nhello\nEOF\n", f"{FROM}COPY <<'EOF' /a.txt\n$A\nEOF\n"],
    "... `--chown`": [f"{FROM}COPY --chown=1:1 a.txt /to\n"],
    "... of a URL, a missing file, `--parents`, `--exclude`": [
        f"{FROM}ADD https://e.org/x /to\n",
        f"{FROM}COPY none /to\n",
        f"{FROM}COPY ../a.txt /to\n",
        f"{FROM}COPY --parents a.txt /to\n",
    ],
    "`.dockerignore`": [f"# with .dockerignore\n{RUN}"],
    "`WORKDIR`": [f"{FROM}WORKDIR /a\nWORKDIR b\nRUN true\n"],
    "`SHELL`": [f'{FROM}SHELL ["/bin/bash", "-euo", "pipefail", "-c"]\nRUN true\n'],
    "`USER`": [f"{RUN}USER me\n"],
    "`EXPOSE`, `VOLUME`, `STOPSIGNAL`": [f"{RUN}EXPOSE 80\n", f"{RUN}VOLUME /d\n", f"{RUN}STOPSIGNAL 9\n"],
    "`ENTRYPOINT`, `CMD`": [f'{RUN}ENTRYPOINT ["x"]\n', f"{RUN}CMD x\n"],
    "`LABEL`, `MAINTAINER`, `HEALTHCHECK`, `ONBUILD`": [f"{RUN}LABEL a=b\n", f"{RUN}ONBUILD RUN x\n"],
    "unknown instructions, `FROM scratch`": [f"{RUN}MOVE a b\n", "FROM scratch\nRUN true\n", "RUN true\n", ""],
}
"""Dockerfiles for each row; `# with .dockerignore` also writes that file."""

HEAD = "Bootstrap: docker\nFrom: debian:12\n"
POST = "\n%post\n    true\n"

DEFINITIONS = {
    "`Bootstrap: docker`, `From`, `Registry`, `Namespace`": [
        HEAD + POST,
        f"BootStrap: docker\nRegistry: quay.io\nNamespace: org\nFrom: tool:1\n{POST}",
    ],
    "`Bootstrap: localimage`, `oci`, `oci-archive`, `docker-archive`": [
        f"Bootstrap: localimage\nFrom: x.sif\n{POST}",
        f"Bootstrap: oci-archive\nFrom: x.tar\n{POST}",
    ],
    "other values of `Bootstrap`": [f"Bootstrap: debootstrap\nFrom: x\n{POST}", f"From: x\n{POST}", POST, ""],
    "other headers": [f"{HEAD}OSVersion: 12\n{POST}"],
    "several stages, `%files from STAGE`": [
        f"{HEAD}Stage: one\n{POST}\n{HEAD}Stage: two\n{POST}",
        f"{HEAD}\n%files from one\n    /a\n{POST}",
    ],
    "`%arguments` and `{{ NAME }}`": [f'{HEAD}\n%arguments\n    A="1"\n    # comment\n\n%post\n    echo {{{{ A }}}}\n'],
    "... without a default": [f"{HEAD}\n%post\n    echo {{{{ A }}}}\n"],
    "`%files`: `SOURCE [DESTINATION]`, patterns": [
        f"{HEAD}\n%files\n    a.txt\n    b /to\n    *.txt /to/\n    'a.txt' \"/a b\"\n{POST}"
    ],
    "... a missing file, a variable": [f"{HEAD}\n%files\n    none\n{POST}", f"{HEAD}\n%files\n    $A /b\n{POST}"],
    "`%post`, `%post -c SHELL`": [f"{HEAD}\n%post -c /bin/bash\n    [[ -d / ]]\n"],
    "... that writes to `$APPTAINER_ENVIRONMENT`, `$APPTAINER_LABELS`": [
        f"{HEAD}\n%post\n    echo export A=1 >>$APPTAINER_ENVIRONMENT\n"
    ],
    "`%environment`: `NAME=VALUE`, `export`": [
        f"{HEAD}{POST}\n%environment\n    export A=1\n    B='two words'\n    export B C\n    # comment\n"
    ],
    "... `PATH=DIR:$PATH`, `LD_LIBRARY_PATH` likewise": [
        f"{HEAD}{POST}\n%environment\n    export PATH=/opt/x:$PATH\n",
        f"{HEAD}{POST}\n%environment\n    export LD_LIBRARY_PATH=/opt/y:${{LD_LIBRARY_PATH}}\n",
    ],
    "... commands, other variables in the value, quotes in it": [
        f"{HEAD}{POST}\n%environment\n    export A=$(date)\n",
        f"{HEAD}{POST}\n%environment\n    export A=$HOME/x\n",
        f"{HEAD}{POST}\n%environment\n    . /etc/profile\n",
        f'{HEAD}{POST}\n%environment\n    export A="it\'s"\n',
    ],
    "`%runscript`, `%startscript`": [f"{HEAD}{POST}\n%runscript\n    exec x\n", f"{HEAD}{POST}\n%startscript\n    x\n"],
    "`%test`": [f"{HEAD}{POST}\n%test\n    x\n"],
    "`%labels`, `%help`": [f"{HEAD}{POST}\n%labels\n    A b\n", f"{HEAD}{POST}\n%help\n    x\n"],
    "`%setup`, `%pre`": [f"{HEAD}{POST}\n%setup\n    x\n", f"{HEAD}{POST}\n%pre\n    x\n"],
    "`%appinstall`, `%apprun` and all of `%app...`": [f"{HEAD}{POST}\n%appinstall foo\n    x\n%apprun foo\n    x\n"],
    "unknown sections": [f"{HEAD}{POST}\n%colour\n    x\n"],
}


ENVIRONMENT = "name: Env\nchannels: [conda-forge]\ndependencies:\n- python=3.12\n- pip:\n  - torch\n"
BUILD = "cotainr build x.sif --base-image=docker://ubuntu:24.04 --conda-env=environment.yml"
TYKKY = "conda-containerize new --prefix /p/tool"

CONDA = {
    "`name`": [ENVIRONMENT, ENVIRONMENT.replace("name: Env\n", "")],
    "`channels`, `dependencies`, and `pip` in them": [ENVIRONMENT],
    "... `-r FILE` beside the environment": [ENVIRONMENT.replace("- torch", "- -r req.txt")],
    "... a directory of this machine, `-e`": [
        ENVIRONMENT.replace("- torch", "- -e ."),
        ENVIRONMENT.replace("- torch", "- -r none.txt"),
    ],
    "`variables`": [f"{ENVIRONMENT}variables:\n  A: b c\n"],
    "`prefix`": [f"{ENVIRONMENT}prefix: /x\n"],
    "other keys": [f"{ENVIRONMENT}colour: green\n"],
    "`cotainr build IMAGE --base-image=... --conda-env=...`": [f"#!/bin/bash\n{BUILD}\n"],
    "... `--system=NAME`": [f"{BUILD} --system=lumi-g\n"],
    "... `--accept-licenses`, `--quiet`, `--verbose`": [f"{BUILD} --accept-licenses -vv\n"],
    "... other options": [f"{BUILD} --odd=1\n"],
    "`conda-containerize new --prefix DIR FILE` of tykky": [f"{TYKKY} environment.yml\n"],
    "... `-r FILE`, `--post-install FILE`": [f"{TYKKY} -r req.txt --post-install post.sh --mamba environment.yml\n"],
    "... `--wrapper-paths`": [f"{TYKKY} -w bin/x environment.yml\n"],
    "`pip-containerize`, `conda-containerize update`, `wrap-container`": [
        "pip-containerize new --prefix /p req.txt\n",
        "conda-containerize update /p\n",
        "cotainr build x.sif --conda-env=environment.yml --system=lumi-g\n",
        "echo\n",
    ],
}
"""Environment files (beginning with `name` or `channels`) and scripts for each row."""

BASE = "Stage0 += baseimage(image='debian:12')\n"
HPCCM = f"{BASE}Stage0 += shell(commands=['true'])\n"

HPCCMS = {
    "`Stage0 += baseimage(image=...)`": [HPCCM],
    "`shell(commands=[...])`": [f"{BASE}Stage0 += shell(commands=['a', 'b'])\n"],
    "`environment(variables={...})`": [f"{HPCCM}Stage0 += environment(variables={{'A': '1', 'PATH': '/x:$PATH'}})\n"],
    "`copy(src=..., dest=...)`, `copy(files={...})`": [
        f"{BASE}Stage0 += copy(src=['a.txt', 'b'], dest='/to/')\nStage0 += copy(files={{'a.txt': '/a'}})\n"
    ],
    "... `_from`": [f"{HPCCM}Stage0 += copy(src='/a', dest='/b', _from='devel')\n"],
    "`workdir`, `arg`, `comment`": [
        f"{HPCCM}Stage0 += workdir(directory='/a')\nStage0 += arg(variables={{'V': '1'}})\nStage0 += comment('c')\n"
    ],
    "`packages(apt=[...], yum=[...], ospackages=[...])`": [f"{BASE}Stage0 += packages(apt=['a'], ospackages=['b'])\n"],
    "`raw(docker=...)`": [f"{BASE}Stage0 += raw(docker='RUN true', singularity='%post')\n"],
    "`user`": [f"{HPCCM}Stage0 += user(user='me')\n"],
    "`label`, `runscript`": [
        f"{HPCCM}Stage0 += label(metadata={{'a': 'b'}})\n",
        f"{HPCCM}Stage0 += runscript(commands=['x'])\n",
    ],
    "other arguments of these": [f"{BASE}Stage0 += shell(commands=['true'], colour='green')\n"],
    "names with values that are known from the text, f-strings": [
        '"""A recipe"""\nV = "12"\nStage0 += baseimage(image=f"debian:{V}")\nStage0 += shell(commands=["a " + V])\n'
    ],
    "building blocks: `gnu`, `openmpi`, `mlnx_ofed` and all others": [f"{HPCCM}Stage0 += gnu()\n"],
    "`Stage1`, `import`, `if`, `for`, functions, `USERARG`": [
        f"{HPCCM}Stage1 += baseimage(image='a:1')\n",
        f"import os\n{HPCCM}",
        f"{HPCCM}if True:\n    Stage0 += shell(commands=['x'])\n",
        f"{BASE}Stage0 += shell(commands=[USERARG.get('x')])\n",
        f"{HPCCM}open('/tmp/owned', 'w')\n",
        f"{HPCCM}x = open('/tmp/owned', 'w')\n",
        "Stage0 +=\n",
    ],
}


def write_sources(root: Path) -> Path:
    """Write the recipes and the files that they copy."""
    recipes = {"Dockerfile": RUN, "app.def": HEAD + POST, "environment.yml": ENVIRONMENT, "recipe.py": HPCCM}
    others = {"req.txt": "torch\n", "post.sh": "true\n"}
    return write_tree(root, {"a.txt": "a\n", "b/c.txt": "c\n", "x.tar.gz": "", **recipes, **others})
