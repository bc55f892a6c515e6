"""fetch_image.py REFERENCE CACHE: read all layers of an image through a cache, and print the sha256 of each layer."""

from __future__ import annotations

import hashlib
import sys

from hpcmod.core.errors import HpcmodError
from hpcmod.core.values.reference import ImageReference
from hpcmod.images.cache import Cache
from hpcmod.images.registry import open_registry_image
from hpcmod.images.web.credentials import Access


def main(reference: str, directory: str) -> int:
    access = Access(announce=lambda said: print(said, file=sys.stderr))
    try:
        parsed, cache = ImageReference.parse(reference), Cache(directory)
        with open_registry_image(parsed, architecture="amd64", cache=cache, access=access) as image:
            for layer in image.layers:
                with layer.open() as stream:
                    print(hashlib.sha256(stream.read()).hexdigest())
    except HpcmodError as err:
        print(err, file=sys.stderr)
        return err.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
