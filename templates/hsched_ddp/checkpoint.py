"""The files of checkpoints: written whole or not at all, and read without running anything that they say."""
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

FORMAT = 4  # of checkpoints; those of hsched 0.1.0 have no key `format`, and are of the first; the second counted steps
WITHOUT_FOLDER = 3  # the format of those that name no folder of the program's, which earlier versions read, too


class Damage(Refused):
    """A checkpoint that is not as it was written."""


def read_plain(path: str) -> Any:
    """Returns what `encode` was given, from a file of `torch.save`, without running anything that the file says.

    Raises Refused, which says why, where that is not what the file holds, or somebody else may have put it there.
    """
    try:
        with open(path, "rb") as file:
            _check_owner(path, file)
            if file.read(4) != b"PK\x03\x04":  # torch would read other, older forms
                raise Damage("it is not a complete file of torch.save")
            file.seek(0)
            if "constants.pkl" in torch._C.PyTorchFileReader(file).get_all_records():  # before 2.6 torch would run it
                raise Refused("it is a program (TorchScript)")
            file.seek(0)
            try:
                saved = torch.load(file, map_location="cpu", weights_only=True)
            except Exception as error:  # its text advises weights_only=False
                file.seek(0)
                saved = FirstFormat(file).load()  # says what is wrong with it in plain words, or reads what hsched 0.1.0 wrote
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
    """Refuses a file of another user where others than this one can put files."""
    folder, me = os.stat(os.path.dirname(path) or "."), os.geteuid()
    owners = {os.lstat(path).st_uid, os.fstat(file.fileno()).st_uid} - {me}
    if owners and (folder.st_uid not in (me, 0) or folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) and os.environ.get("HSCHED_TRUST_CHECKPOINT") != "1":
        raise Refused("it belongs to user %d, and other users can write to its directory; if you trust it, set HSCHED_TRUST_CHECKPOINT=1 in the shell "
                      "in which you submit or run the job" % owners.pop())


@contextlib.contextmanager
def new_file(path: str, check: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """Yields a new file, which takes the place of `path` when it is whole and on disk, unless `check` raises then.

    Others may be able to write the directory: nobody can guess its name meanwhile, and no link of theirs is followed.
    It is locked as long as this process lives and writes it.
    """
    temporary = "%s.%s.tmp" % (path, secrets.token_hex(8))
    number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with open(number, "wb") as file:
            with contextlib.suppress(OSError):
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    """Returns whether nobody writes a new file of this user any more; where files cannot be locked, whether nobody has for an hour."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        data = os.fstat(number)
        if data.st_uid != os.geteuid() or not stat.S_ISREG(data.st_mode):
            return False
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return time.time() - data.st_mtime > 3600
        return data.st_size > 0 or time.time() - data.st_mtime > 5  # its writer may be about to lock it
    finally:
        os.close(number)


class Files:
    """A checkpoint, the one before it, and the file with the hashes of both.

    The checkpoint is never missing and always has its hash: the file of hashes knows the next one before it takes its place.
    """

    def __init__(self, path: str) -> None:
        self.path, self.before, self.hashes = path, _named(path, "before"), path + ".sha256"
        self.paths = (self.path, self.before)
        self._digests: Dict[Tuple[int, int], str] = {}  # of what this process wrote last
        self.is_damaged = False  # whether the checkpoint must not become the one before

    def write(self, saved: Any, check: Callable[[], None]) -> None:
        """Replaces the checkpoint, unless `check` raises when it is written; keeps the one before."""
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
        """Keeps the checkpoint as the one before, unless it is damaged, or the file system has no links."""
        temporary = "%s.%s.tmp" % (self.path, secrets.token_hex(8))
        if not self.is_damaged:
            with contextlib.suppress(OSError):
                os.link(self.path, temporary, follow_symlinks=False)
                os.replace(temporary, self.before)

    def _digest(self, path: str) -> Optional[str]:
        """Returns a file's SHA-256, computed unless this process wrote the file; None where there is no file."""
        if not os.path.exists(path):
            return None
        own = self._digests.get(_mark(os.stat(path)))
        return own or sha256(path)

    def _known(self) -> List[str]:
        """Returns the hashes that are known."""
        with contextlib.suppress(OSError, ValueError):
            with open(self.hashes, encoding="ascii") as file:
                return [line.split()[0] for line in file if line.strip()]
        return []

    def check(self, path: str) -> None:
        """Raises Damage if a file has none of the hashes that are known; one from before there were hashes has none to compare."""
        known = self._known()
        if known and os.path.exists(path) and sha256(path) not in known:
            raise Damage("%s was refused: it has changed since it was written: its SHA-256 is not in %s (if you changed it, remove that file)"
                         % (path, self.hashes))

    def remove_left(self) -> None:
        """Removes what killed processes of this user left of new files for the checkpoint."""
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
    """Returns what tells a file from others, whatever its name: links and renames keep it."""
    return data.st_ino, data.st_mtime_ns


def _named(path: str, kind: str) -> str:
    """Returns hsched-ddp.KIND.pt for hsched-ddp.pt."""
    root, ending = os.path.splitext(path)
    return "%s.%s%s" % (root, kind, ending)


class Sink:
    """A file for torch, which makes another error of one in writing, or aborts the process: the first one is kept here."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.digest = hashlib.sha256()  # of all that was written
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
        """The file is flushed when all is written."""
