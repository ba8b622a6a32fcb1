"""A submitit job, seen from outside: a Slurm job, or a run of a pool."""
import json
import subprocess
import time as clock
import typing as tp
from pathlib import Path

from submitit.core import core, logger, utils
from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

from . import calls

POOL = "pool"
"""Prefix of the ids of pools; those of Slurm are numbers."""

STATES = {"waiting": "PENDING", "submitting": "PENDING", "pending": "PENDING", "running": "RUNNING", "stopping": "RUNNING", "completed": "COMPLETED", "failed": "FAILED",
          "cancelled": "CANCELLED"}
"""Slurm's names for states of hsched."""


GONE_S = 90.0
"""How long the queue must contain no Slurm job of a pool before the pool counts as ended: there may be a gap before a Slurm job of a pool submits the next one."""


class Pool(tp.NamedTuple):
    """The runs of one list: their state directory, and their names by index."""

    state_dir: str
    names: tp.List[str]


def pool_folder(folder: tp.Union[Path, str], job_id: str) -> Path:
    """Returns the folder of a pool's own files, beside those of submitit."""
    return utils.JobPaths.get_first_id_independent_folder(folder) / (job_id.split("_")[0] + "_hsched")


def pool_file(folder: tp.Union[Path, str], job_id: str) -> Path:
    """Returns the file with the state directory of a pool."""
    return pool_folder(folder, job_id) / "pool.json"


def is_of_pool(job_id: str) -> bool:
    return job_id.startswith(POOL)


class HschedInfoWatcher(SlurmInfoWatcher):
    """Asks Slurm for the states of its jobs, and hsched for those of the runs of pools."""

    def __init__(self, delay_s: int = 60) -> None:
        super().__init__(delay_s)
        self.files: tp.Dict[str, Path] = {}  # by the id of the pool
        self._missing_since: tp.Dict[str, float] = {}  # since when the queue has had no Slurm job of a pool

    def update(self) -> None:
        """Asks for the states of all registered jobs, and marks those that have ended."""
        others = {own for own in self._registered - self._finished if is_of_pool(own)}
        for pool in sorted({own.split("_")[0] for own in others}):
            try:
                self._info_dict.update(self._states(pool))
            except (OSError, ValueError, KeyError, utils.FailedSubmissionError) as error:
                logger.get_logger().warning("The states of %s are not known: %s", pool, error)
        super().update()
        self._last_status_check = clock.time()  # also if no job is one of Slurm's
        self._finished |= {job_id for job_id in others if self.is_done(job_id, mode="cache")}

    def _make_command(self) -> tp.Optional[tp.List[str]]:
        own = {job_id for job_id in self._registered - self._finished if not is_of_pool(job_id)}
        if not own:
            return None
        words = ["sacct", "-o", "JobID,State,NodeList", "--parsable2"]
        for job_id in sorted({one.split("_")[0] for one in own}):
            words += ["-j", job_id]
        return words

    def _states(self, pool: str) -> tp.Dict[str, tp.Dict[str, str]]:
        """Returns the known states of the runs of a pool, by job id."""
        own = read_pool(self.files[pool])
        shown = calls.run(["status"], own.state_dir, accept=(0, 1))
        states = {job["name"]: job["state"] for job in shown["jobs"]}
        if any(STATES.get(states.get(name, "")) in ("PENDING", "RUNNING") for name in own.names) and self._is_gone(pool, own.state_dir):
            states = {name: state if STATES.get(state) not in ("PENDING", "RUNNING") else "cancelled" for name, state in states.items()}
        return {"%s_%d" % (pool, index): {"JobID": "%s_%d" % (pool, index), "State": STATES.get(states.get(name, ""), "UNKNOWN"), "NodeList": ""}
                for index, name in enumerate(own.names)}


    def _is_gone(self, pool: str, state_dir: str) -> bool:
        """Returns whether the queue has contained no Slurm job of a pool for some time, so that its remaining runs will not start."""
        shown = subprocess.run(["squeue", "--me", "--noheader", "--format=%o"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               universal_newlines=True, check=False)
        if shown.returncode != 0 or any(line.startswith(state_dir + "/") for line in shown.stdout.splitlines()):
            self._missing_since.pop(pool, None)
            return False
        return clock.monotonic() - self._missing_since.setdefault(pool, clock.monotonic()) > GONE_S


def write_pool(folder: tp.Union[Path, str], job_id: str, content: tp.Dict[str, tp.Any]) -> None:
    """Replaces the file of a pool atomically."""
    path = pool_file(folder, job_id)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content), encoding="utf-8")
    new.replace(path)


def read_pool(path: Path) -> Pool:
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if content["state_dir"] is None:
        raise utils.FailedSubmissionError("the submission of %s was interrupted: if it has a Slurm job, its runs are in the folder together/%s of hsched's state directory" %
                                          (content["run"], content["run"]))
    return Pool(content["state_dir"], content["names"])


class HschedJob(SlurmJob[core.R]):
    """A submitit job that hsched submitted."""

    watcher = HschedInfoWatcher(delay_s=60)

    def _register_in_watcher(self) -> None:
        if is_of_pool(self.job_id):
            self.watcher.files[self.job_id.split("_")[0]] = pool_file(self.paths._folder, self.job_id)
        super()._register_in_watcher()

    def __setstate__(self, state: tp.Dict[str, tp.Any]) -> None:
        self.__dict__.update(state)
        self._register_in_watcher()

    def cancel(self, check: bool = True) -> None:
        """Cancels the job; in a pool, only this run."""
        if not is_of_pool(self.job_id):
            super().cancel(check)
            return
        pool = read_pool(pool_file(self.paths._folder, self.job_id))
        try:
            calls.run(["cancel", pool.names[int(self.job_id.split("_")[1])]], pool.state_dir)
        except utils.FailedSubmissionError as error:
            if check:
                raise RuntimeError(str(error)) from error

    def _interrupt(self, timeout: bool = False) -> None:
        """Sends the signal of preemption or of the time limit to the job (for tests); raises an error in a pool."""
        if not is_of_pool(self.job_id):
            super()._interrupt(timeout)
            return
        raise NotImplementedError("a run of a pool shares its Slurm job with others: hsched cancel stops it")
