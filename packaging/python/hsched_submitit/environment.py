"""A submitit job under hsched, seen from inside: a Slurm job, or a run of a pool."""
import json
import os
import signal
import sys
import threading
import typing as tp

from submitit.core import job_environment, utils
from submitit.core.logger import get_logger
from submitit.slurm.slurm import SlurmJobEnvironment

SAVED = 85
"""The exit status of a run that has saved and should be resumed."""


class Preempted(job_environment.SignalHandler):
    """Handles the stop signal of hsched, which comes when the allocation ends or another run takes precedence; it does not count as a timeout of the run."""

    def has_timed_out(self) -> bool:
        return False


class HschedJobEnvironment(SlurmJobEnvironment):
    """The environment of this job: where it runs, and which task it is. For a run of a pool, the executor has set the variables."""

    # A run of a pool is one task: only the id is set, so submitit uses its defaults for the rest (one task, number 0).
    @property
    def _env(self) -> tp.Dict[str, str]:  # type: ignore[override]
        if not self._is_in_pool():
            return SlurmJobEnvironment._env
        return {"job_id": "SUBMITIT_HSCHED_JOB_ID", "num_tasks": "SUBMITIT_HSCHED_ONE", "num_nodes": "SUBMITIT_HSCHED_ONE", "node": "SUBMITIT_HSCHED_ZERO",
                "nodes": "SUBMITIT_HSCHED_NODES", "global_rank": "SUBMITIT_HSCHED_ZERO", "local_rank": "SUBMITIT_HSCHED_ZERO"}

    @staticmethod
    def _is_in_pool() -> bool:
        return "SUBMITIT_HSCHED_JOB_ID" in os.environ

    def _handle_signals(self, paths: utils.JobPaths, submission: utils.DelayedSubmission) -> None:
        """Lets the run save and request another start when hsched stops it, and shortly before its time limit."""
        super()._handle_signals(paths, submission)
        if not self._is_in_pool():
            return
        signal.signal(signal.SIGUSR1, Preempted(self, paths, submission).checkpoint_and_try_requeue)
        delay_s = float(os.environ.get("SUBMITIT_HSCHED_SIGNAL_DELAY_S", 90))
        limit_s = submission._timeout_min * 60
        timer = threading.Timer(max(limit_s * 0.8, limit_s - delay_s), os.kill, (os.getpid(), self._usr_sig()))
        timer.daemon = True
        timer.start()

    def _requeue(self, countdown: int) -> None:
        """Ends the run so that it is started again, in this allocation or in the next one."""
        if not self._is_in_pool():
            super()._requeue(countdown)
            return
        # A start that reached its limit counts as an epoch, so that hsched does not consider it a start without progress.
        timeouts = int(os.environ["SUBMITIT_HSCHED_TIMEOUTS"]) - countdown
        if timeouts > 0:
            with open(os.environ["HSCHED_REPORT"], "a", encoding="utf-8") as file:
                file.write(json.dumps({"epoch": timeouts}) + "\n")
        get_logger().info("Saved; hsched starts the run again (%d remaining timeouts)", countdown)
        sys.exit(SAVED)
