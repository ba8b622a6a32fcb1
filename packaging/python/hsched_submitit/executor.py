"""The executor: a single function is a Slurm job that hsched submits and follows; a list of functions is a pool of allocations that run them."""
import json
import time as clock
import typing as tp
import uuid
from pathlib import Path

from submitit.core import core, utils
from submitit.slurm import slurm

from . import calls, pool
from .job import POOL, HschedJob, pool_folder, write_pool

OWN = {"gpu_type": None, "may": None, "queue": True, "at_most": 3, "gpus_per_allocation": None, "allocation_min": None}
"""Parameters beside those of submitit's executor for Slurm, and their defaults."""

_LOOK_S = 60.0
"""How long an answer of `hsched when` is reused for equal requests."""


class HschedExecutor(slurm.SlurmExecutor):
    """Submits functions through hsched.

    Parameters beside those of submitit's executor for Slurm, to be written with `hsched_` before them:

    gpu_type: str
        the GPU type, such as "a100"; of pools also "v100:2,t4:2"
    may: str
        what hsched may change so that a single function starts sooner, in addition to free changes: a comma-separated list of partition, account, type, limit
    queue: bool
        whether hsched considers the queue when it chooses the request; True by default
    at_most: int
        maximum number of allocations of a pool at a time
    gpus_per_allocation: int
        GPUs of each allocation of a pool, or concurrent functions if they have no GPUs; by default as many as its functions need, and at most 4 (without GPUs, 8) unless one function needs more
    allocation_min: int
        minutes of each allocation of a pool; by default the time that its functions need, and at most 12 hours unless timeout_min is longer
    """

    job_class = HschedJob

    def __init__(self, folder: tp.Union[str, Path], max_num_timeout: int = 3, max_pickle_size_gb: float = 1.0, python: tp.Optional[str] = None) -> None:
        if calls.program() is None:
            raise RuntimeError("the command hsched was not found: install it (pip install hsched), or set HSCHED to its path")
        super().__init__(folder, max_num_timeout=max_num_timeout, max_pickle_size_gb=max_pickle_size_gb, python=python)
        self._choices: tp.Dict[str, tp.Tuple[float, tp.List[str]]] = {}  # options by request, and when they were chosen

    @classmethod
    def affinity(cls) -> int:
        """Returns 1, below Slurm's 2, so that only `cluster="hsched"` selects it; -1 without hsched or Slurm."""
        return -1 if calls.program() is None or slurm.SlurmExecutor.affinity() < 0 else 1

    @classmethod
    def _valid_parameters(cls) -> tp.Set[str]:
        return super()._valid_parameters() | set(OWN)

    def _internal_update_parameters(self, **kwargs: tp.Any) -> None:
        own = {name: value for name, value in kwargs.items() if name in OWN}
        super()._internal_update_parameters(**{name: value for name, value in kwargs.items() if name not in OWN})
        self.parameters.update(own)

    def _own(self, name: str) -> tp.Any:
        return self.parameters.get(name, OWN[name])

    def _internal_process_submissions(self, delayed_submissions: tp.List[utils.DelayedSubmission]) -> tp.List[core.Job[tp.Any]]:
        if len(delayed_submissions) == 1:
            return core.PicklingExecutor._internal_process_submissions(self, delayed_submissions)
        if pool.fits(self.parameters):
            return self._submit_pool(delayed_submissions)
        return self._submit_array(delayed_submissions)

    # A single Slurm job

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        parameters = {name: value for name, value in self.parameters.items() if name not in OWN}
        # hsched identifies jobs by their names.
        parameters["job_name"] = "%s-%s" % (parameters.get("job_name", "submitit"), uid[:8])
        kind = self._own("gpu_type")
        if kind and (":" in kind or "," in kind):
            raise ValueError("hsched_gpu_type is %s, but a function that is not in a list has GPUs of one type" % kind)
        if kind and isinstance(parameters.get("gpus_per_node"), int):
            parameters["gpus_per_node"] = "%s:%d" % (kind, parameters["gpus_per_node"])
        text = slurm._make_sbatch_string(command=command, folder=self.folder, **parameters)
        return text.replace("export SUBMITIT_EXECUTOR=slurm\n", "export SUBMITIT_EXECUTOR=%s\n" % self.name())

    def _submit_command(self, command: str) -> core.Job[tp.Any]:
        """Submits a script that runs a command; unless `queue` is false, with the request that should start first."""
        uid = uuid.uuid4().hex
        script = utils.JobPaths.get_first_id_independent_folder(self.folder) / (".submission_file_%s.sh" % uid)
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(self._make_submission_file_text(command, uid), encoding="utf-8")
        try:
            shown = calls.run(self._make_submission_command(script)[1:])
        except utils.FailedSubmissionError:
            script.unlink()
            raise
        job = self.job_class(self.folder, self._get_job_id_from_submission_command(json.dumps(shown)), list(range(self._num_tasks())))
        job.paths.move_temporary_file(script, "submission_file", keep_as_symlink=True)
        return job

    def _make_submission_command(self, submission_file_path: Path) -> tp.List[str]:
        may = self._own("may")
        options = self._chosen(submission_file_path) if self._own("queue") else []
        return ["hsched", "submit", str(submission_file_path), *(["--may", may] if may else []), *(["--", *options] if options else [])]

    def _chosen(self, script: Path) -> tp.List[str]:
        """Returns the options of the request that should start first, among those that are free or allowed; [] for the unchanged script."""
        key = json.dumps(self.parameters, sort_keys=True, default=str)
        at, options = self._choices.get(key, (float("-inf"), []))
        if clock.monotonic() - at < _LOOK_S:
            return options
        try:
            shown = calls.run(["when", str(script)], accept=(0, 3))
        except utils.FailedSubmissionError:
            shown = {}  # unknown: use the script unchanged
        options = first_change(shown, (self._own("may") or "").split(","))
        self._choices[key] = (clock.monotonic(), options)
        return options

    @staticmethod
    def _get_job_id_from_submission_command(string: tp.Union[bytes, str]) -> str:
        """Returns the id of the Slurm job from what `hsched submit --format json` prints."""
        text = string if isinstance(string, str) else string.decode()
        try:
            return str(json.loads(text)["jobs"][0]["job_id"])
        except (ValueError, KeyError, IndexError, TypeError):
            raise utils.FailedSubmissionError("hsched submit named no Slurm job: %s" % text) from None

    def _dump(self, delayed_submissions: tp.List[utils.DelayedSubmission]) -> tp.List[Path]:
        """Writes the functions to temporary files."""
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for delayed in delayed_submissions:
            path = folder / ("%s.pkl" % uuid.uuid4().hex)
            delayed.set_timeout(self.parameters.get("time", 5), self.max_num_timeout)
            delayed.dump(path)
            paths.append(path)
        return paths

    def _submit_array(self, delayed_submissions: tp.List[utils.DelayedSubmission]) -> tp.List[core.Job[tp.Any]]:
        """Submits a job array, for functions that a pool cannot run."""
        paths = self._dump(delayed_submissions)
        self.parameters["map_count"] = len(paths)
        try:
            first = self._submit_command(self._submitit_command_str)
        finally:
            del self.parameters["map_count"]
        jobs: tp.List[core.Job[tp.Any]] = [self.job_class(self.folder, "%s_%d" % (first.job_id, index), list(range(first.num_tasks))) for index in range(len(paths))]
        for job, path in zip(jobs, paths):
            job.paths.move_temporary_file(path, "submitted_pickle")
        return jobs

    # A pool

    def _submit_pool(self, delayed_submissions: tp.List[utils.DelayedSubmission]) -> tp.List[core.Job[tp.Any]]:
        """Submits a pool of allocations. The ids of its runs are created here, so that their files are in place before it starts."""
        paths = self._dump(delayed_submissions)
        main = POOL + uuid.uuid4().hex[:10]
        ids = ["%s_%d" % (main, index) for index in range(len(paths))]
        for job_id, path in zip(ids, paths):
            utils.JobPaths(self.folder, job_id).move_temporary_file(path, "submitted_pickle")
        own = dict(OWN, **self.parameters)
        runs = pool.job_file(ids, self.folder, self._submitit_command_str, own, self.max_num_timeout)
        place = pool_folder(self.folder, main)
        place.mkdir(parents=True)
        file = place / "jobs.json"
        file.write_text(json.dumps(runs, indent=1), encoding="utf-8")
        # Written before the submission, so that the pool is known even if this process is then killed.
        known = {"run": main, "state_dir": None, "names": [job["name"] for job in runs["jobs"]], "slurm_jobs": []}
        write_pool(self.folder, main, known)
        arguments = ["--run-id", main, *pool.arguments(file, len(ids), own)]
        shown = calls.run(["submit", *arguments], folder=place)  # where the output of its Slurm jobs goes
        slurm_jobs = [own["job_id"] for own in shown.get("allocations", [shown])]
        write_pool(self.folder, main, dict(known, state_dir=shown["state_dir"], slurm_jobs=slurm_jobs))
        return [self.job_class(self.folder, job_id) for job_id in ids]


def first_change(shown: tp.Dict[str, tp.Any], may: tp.Sequence[str]) -> tp.List[str]:
    """Returns the sbatch options of the change after which a script should start first, from the output of `hsched when`; [] for no change."""
    script = shown.get("script") or {}
    allowed = [own for own in script.get("changes", []) if own.get("sooner_s") is not None and _is_allowed(own, may)]
    if not allowed:
        return []
    best = max(allowed, key=lambda own: float(own["sooner_s"]))
    return list(best["options"])


def _is_allowed(change: tp.Dict[str, tp.Any], may: tp.Sequence[str]) -> bool:
    """Returns whether a change is free or affects only what `may` allows. A shorter limit is never free, because the function knows its own limit."""
    words = {"--partition": "partition", "--account": "account", "--time": "limit", "--gres": "type", "--gpus": "type", "--gpus-per-node": "type", "--constraint": "type"}
    needed = [words.get(option.split("=")[0], "other") for option in change["options"]]
    if change.get("harmless") and not change.get("may") and "limit" not in needed:
        return True
    return all(own in may for own in needed) and (not change.get("may") or "type" in may)
