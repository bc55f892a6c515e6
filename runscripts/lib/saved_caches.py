"""Save the compiled kernels of a job in one archive, or restore them on a node.

    save CACHE DIRECTORY        write the archive into DIRECTORY, which a group may share
    restore CACHE DIRECTORY     unpack it; other ranks of the node wait

Runs with the image's Python, because small images lack tar and flock.
"""
import fcntl
import io
import os
import shutil
import sys
import tarfile
import tempfile


def save(cache, to):
    os.makedirs(to, exist_ok=True)
    private = tempfile.mkdtemp(prefix=".hpcmod-caches.", dir=to)  # nobody else can plant links in it
    try:
        with tarfile.open(private + "/caches.tar", "w") as archive:
            for directory, _, names in os.walk(cache):
                inside = os.path.relpath(directory, cache)
                if inside != ".":  # the files at the top are not caches
                    for name in sorted(names):
                        add(archive, os.path.join(directory, name), os.path.join(inside, name))
        os.rename(private + "/caches.tar", to + "/hpcmod-caches.tar")
    finally:
        shutil.rmtree(private)


def add(archive, path, name):
    """Add a file; other ranks of the node, which may still be running, change and remove some."""
    try:
        with open(path, "rb") as file:
            entry, data = archive.gettarinfo(path, name), file.read()
    except OSError:
        return
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def restore(cache, place):
    with open(cache + "/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(cache + "/restored"):
            with tarfile.open(place + "/hpcmod-caches.tar") as archive:
                archive.extractall(cache, filter(is_cache, archive))
            open(cache + "/restored", "w").close()


def is_cache(entry):
    """Return whether we wrote an entry: a file without a link, and in the directory."""
    return entry.isfile() and entry.name[:1] != "/" and ".." not in entry.name.split("/")


try:
    {"save": save, "restore": restore}[sys.argv[1]](*sys.argv[2:])
except (OSError, tarfile.TarError) as err:
    sys.exit("saved_caches.py: %s" % err)
