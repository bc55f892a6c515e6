"""Base images used by a Dockerfile."""

from __future__ import annotations

import re

_CONTINUED = re.compile(r"\\[ \t]*\n(?:[ \t]*#[^\n]*\n)*")
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE | re.MULTILINE)
_COPY = re.compile(r"^\s*(?:COPY|ADD|RUN)\b[^\n]*", re.IGNORECASE | re.MULTILINE)
_COPIED = re.compile(r"(?:--from=|[=,]from=)([^\s,]+)")


def images_of(text: str) -> tuple[str, ...]:
    """Return the images that a Dockerfile refers to, in order, without its own stages and `scratch`.

    Variables are not expanded: a name may contain `$`.
    """
    text = _CONTINUED.sub(" ", text)
    images, stages = [], {"scratch"}
    for image, stage in _FROM.findall(text):
        if image.lower() not in stages:
            images.append(image)
        stages.add(stage.lower())
    for line in _COPY.findall(text):
        images += [name for name in _COPIED.findall(line) if name.lower() not in stages and not name.isdecimal()]
    return tuple(dict.fromkeys(name.strip("\"'") for name in images))
