"""Calls of the command hsched."""
import json
import os
import shutil
import subprocess
import sys
import typing as tp
from pathlib import Path

from submitit.core import utils


def program() -> tp.Optional[str]:
    """Returns the path of hsched from HSCHED, from PATH, or beside this Python; None if there is none."""
    beside = Path(sys.executable).parent / "hsched"
    return os.environ.get("HSCHED") or shutil.which("hsched") or (str(beside) if beside.exists() else None)


def run(arguments: tp.Sequence[str], state_dir: tp.Optional[str] = None, accept: tp.Sequence[int] = (0,), folder: tp.Optional[Path] = None) -> tp.Any:
    """Runs hsched in a folder and returns the JSON that it prints; raises FailedSubmissionError with its message if it fails."""
    own = program()
    if own is None:
        raise utils.FailedSubmissionError("the command hsched was not found: install it (pip install hsched), or set HSCHED to its path")
    env = dict(os.environ, HSCHED_STATE_DIR=state_dir) if state_dir else None
    try:
        done = subprocess.run([own, arguments[0], "--format", "json", *arguments[1:]], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, check=False)
    except OSError as error:
        raise utils.FailedSubmissionError("%s cannot be run: %s" % (own, error)) from error
    if done.returncode not in accept:
        raise utils.FailedSubmissionError("hsched %s exited with status %d: %s" % (" ".join(arguments), done.returncode, _reason(done.stderr, done.stdout)))
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise utils.FailedSubmissionError("hsched %s printed no JSON: %s" % (" ".join(arguments), done.stdout[-500:] or done.stderr[-500:])) from None


def knows(command: str, option: str) -> bool:
    """Returns whether a command of this hsched has an option."""
    own = program()
    if own is None:
        return False
    try:
        shown = subprocess.run([own, command, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
    except OSError:
        return False
    return any(line.split()[:1] == [option] for line in shown.stdout.splitlines())


def _reason(errors: str, output: str) -> str:
    """Returns the message of an error object, or the printed text."""
    for text in (output, errors):
        try:
            error = json.loads(text).get("error", {})
        except (ValueError, AttributeError):
            continue
        if error.get("message"):
            return str(error["message"])
    return errors.strip() or output.strip()
