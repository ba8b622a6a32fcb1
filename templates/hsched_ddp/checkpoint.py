"""The files of checkpoints: they are written atomically, and read without executing any code in them."""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .optional import torch
from .values import FirstFormat, Refused, decode, encode

FORMAT = 4  # of checkpoints; those of hsched 0.1.0 have no key `format`, which means 1; formats 1 and 2 count steps, later ones samples
WITHOUT_FOLDER = 3  # the format of checkpoints without a folder of the program, which earlier versions can also read


class Damage(Refused):
    """A checkpoint is incomplete, cannot be read, or has changed since it was written."""


def read_plain(path: str) -> Any:
    """Returns the argument of `encode` from a file of `torch.save`, without executing any code in the file.

    Raises Refused, with the reason, if the file holds something else, or if another user may have put it there.
    """
    try:
        with open(path, "rb") as file:
            _check_owner(path, file)
            if file.read(4) != b"PK\x03\x04":  # torch would also read older formats
                raise Damage("it is not a complete file of torch.save")
            file.seek(0)
            if "constants.pkl" in torch._C.PyTorchFileReader(file).get_all_records():  # before 2.6 torch would run it
                raise Refused("it is a program (TorchScript)")
            file.seek(0)
            try:
                saved = torch.load(file, map_location="cpu", weights_only=True)
            except Exception as error:  # its message recommends weights_only=False
                file.seek(0)
                saved = FirstFormat(file).load()  # reads a file of hsched 0.1.0, or explains what is wrong with it
                if "format" in dict(encode(saved, "its content")):
                    raise Refused("torch %s does not load it with weights_only=True" % torch.__version__) from error
            if type(saved) is not dict:
                raise Refused("it contains a %s" % type(saved).__name__)
            if saved.get("format", 1) not in range(1, FORMAT + 1):
                raise Refused("its format is %r, but this hsched_ddp reads only up to %d: use the hsched_ddp of the hsched that wrote it" % (saved["format"], FORMAT))
            return decode(saved if "format" in saved else encode(saved, "its content"))
    except Refused as error:
        raise type(error)("%s was refused: %s" % (path, error)) from error.__cause__
    except Exception as error:
        raise Damage("%s cannot be read: %s" % (path, str(error) or type(error).__name__)) from error


def _check_owner(path: str, file: Any) -> None:
    """Refuses a file of another user in a directory that other users can write to, unless HSCHED_TRUST_CHECKPOINT is 1."""
    folder, me = os.stat(os.path.dirname(path) or "."), os.geteuid()
    owners = {os.lstat(path).st_uid, os.fstat(file.fileno()).st_uid} - {me}
    if owners and (folder.st_uid not in (me, 0) or folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) and os.environ.get("HSCHED_TRUST_CHECKPOINT") != "1":
        raise Refused("it belongs to user %d, and other users can write to its directory; if you trust it, set HSCHED_TRUST_CHECKPOINT=1 in the shell "
                      "in which you submit or run the job" % owners.pop())


@contextlib.contextmanager
def new_file(path: str, check: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """Yields a new file, which replaces `path` once it is complete and on disk, unless `check` raises at that point.

    Other users may be able to write to the directory, so the temporary name is random and links are not followed.
    The file is locked until it has its name: other ranks and copies remove new files that are not locked.
    """
    temporary = "%s.%s.tmp" % (path, secrets.token_hex(8))
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(number, "wb") as file:
            with contextlib.suppress(OSError):
                fcntl.flock(number, fcntl.LOCK_EX)  # waits for a process that looks whether the file is locked
            yield file
            file.flush()
            os.fsync(number)
            check()
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _is_abandoned(path: str) -> bool:
    """Returns whether a new file of this user has no writer any more: it is unlocked or, if files cannot be locked, over an hour old.

    An empty file gets 5 s to be locked. A file with a second name is a checkpoint that is about to become the previous one.
    """
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        data = os.fstat(number)
        if data.st_uid != os.geteuid() or not stat.S_ISREG(data.st_mode) or data.st_nlink > 1:
            return False
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return time.time() - data.st_mtime > 3600
        return data.st_size > 0 or time.time() - data.st_mtime > 5  # its writer may not have locked it yet
    finally:
        os.close(number)


class Files:
    """A checkpoint, the one before it, and the file with the hashes of both.

    After the first write, there is always a checkpoint with a known hash: the hash of a new one is stored before the
    file is replaced.
    """

    def __init__(self, path: str) -> None:
        self.path, self.before, self.hashes = path, _named(path, "before"), path + ".sha256"
        self.paths = (self.path, self.before)
        self._digests: Dict[Tuple[int, int], str] = {}  # of the checkpoint that this process wrote last
        self.is_damaged = False  # if so, it must not become the previous checkpoint

    def write(self, saved: Any, check: Callable[[], None]) -> None:
        """Replaces the checkpoint, unless `check` raises after it is written; keeps the previous one."""
        with new_file(self.path, check) as file:
            sink = Sink(file)
            torch.save(saved, sink)  # type: ignore[arg-type]
            if sink.problem:
                raise sink.problem
            check()
            self._keep()
            lines = {self.path: sink.digest.hexdigest(), self.before: self._digest(self.before)}
            with new_file(self.hashes) as hashes:
                text = "".join("%s  %s\n" % (digest, os.path.basename(path)) for path, digest in lines.items() if digest)
                hashes.write(text.encode())
            mark = _mark(os.fstat(file.fileno()))
        self._digests = {mark: sink.digest.hexdigest()}
        self.is_damaged = False

    def _keep(self) -> None:
        """Keeps the checkpoint as the previous one, unless it is damaged, or the file system has no hard links."""
        temporary = "%s.%s.tmp" % (self.path, secrets.token_hex(8))
        if not self.is_damaged:
            with contextlib.suppress(OSError):
                os.link(self.path, temporary, follow_symlinks=False)
                os.replace(temporary, self.before)

    def _digest(self, path: str) -> Optional[str]:
        """Returns a file's SHA-256, computed unless this process wrote the file; None if there is no file."""
        if not os.path.exists(path):
            return None
        own = self._digests.get(_mark(os.stat(path)))
        return own or sha256(path)

    def _known(self) -> List[str]:
        """Returns the known hashes; empty if the file with them is missing or cannot be read."""
        with contextlib.suppress(OSError, ValueError):
            with open(self.hashes, encoding="ascii") as file:
                return [line.split()[0] for line in file if line.strip()]
        return []

    def check(self, path: str) -> None:
        """Raises Damage if a file has none of the known hashes; checkpoints of versions without hashes are not compared."""
        known = self._known()
        if known and os.path.exists(path) and sha256(path) not in known:
            raise Damage("%s was refused: it has changed since it was written: its SHA-256 is not in %s (if you changed it, remove that file)"
                         % (path, self.hashes))

    def remove_left(self) -> None:
        """Removes incomplete checkpoint files that killed processes of this user left behind."""
        folder, name = os.path.split(self.path)
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder or "."):
                if entry.name.startswith(name + ".") and entry.name.endswith(".tmp"):
                    with contextlib.suppress(OSError):
                        if _is_abandoned(entry.path):
                            os.unlink(entry.path)


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _mark(data: os.stat_result) -> Tuple[int, int]:
    """Returns the identity of a file, which does not depend on its name: links and renames keep it."""
    return data.st_ino, data.st_mtime_ns


def _named(path: str, kind: str) -> str:
    """Returns hsched-ddp.KIND.pt for hsched-ddp.pt."""
    root, ending = os.path.splitext(path)
    return "%s.%s%s" % (root, kind, ending)


class Sink:
    """A file for torch that keeps the first write error, because torch replaces it with another one or aborts the process."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.digest = hashlib.sha256()  # of everything written
        self.problem: Optional[OSError] = None

    def write(self, data: Any) -> int:
        try:
            if self.problem is None:
                self.file.write(data)
                self.digest.update(data)
        except OSError as error:
            self.problem = error
        return len(data)

    def flush(self) -> None:
        """The file is flushed at the end."""
