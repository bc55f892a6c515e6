"""save CACHE DIRECTORY: write the compiled kernels of a job into an archive there, which a group may share.
restore CACHE DIRECTORY: unpack it, once on a node. With Python, because small images lack tar and flock.
"""
import fcntl
import io
import os
import sys
import tarfile


def save(cache, to):
    """Write a new file, then rename it: by descriptors, as others may exchange names in `to`."""
    os.makedirs(to, exist_ok=True)
    shared = os.open(to, os.O_RDONLY | os.O_DIRECTORY)
    new = ".hpcmod-caches." + os.urandom(8).hex()
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=shared), "wb") as file:
            with tarfile.open(fileobj=file, mode="w", dereference=True) as archive:
                for directory, _, names in os.walk(cache):
                    for name in sorted(names) if directory != cache else ():  # the files at the top are not caches
                        add(archive, os.path.join(directory, name), cache)
        os.rename(new, "hpcmod-caches.tar", src_dir_fd=shared, dst_dir_fd=shared)
    except OSError:
        os.unlink(new, dir_fd=shared)
        raise


def add(archive, path, cache):
    """Add a plain file; other ranks of the node, which may still be running, change and remove some."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            entry, data = archive.gettarinfo(arcname=os.path.relpath(path, cache), fileobj=file), file.read()
    except OSError:
        return
    if entry.isfile():
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))


def restore(cache, place):
    with open(cache + "/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(cache + "/restored"):
            with tarfile.open(place + "/hpcmod-caches.tar") as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # else Python 3.13 warns
                archive.extractall(cache, filter(is_cache, archive))
            open(cache + "/restored", "w").close()


def is_cache(entry):
    """Return whether we wrote an entry: a file without a link, and in the directory."""
    return entry.isfile() and entry.name[:1] != "/" and ".." not in entry.name.split("/")


try:
    {"save": save, "restore": restore}[sys.argv[1]](*sys.argv[2:])
except (OSError, tarfile.TarError) as err:
    sys.exit("saved_caches.py: %s" % err)
