"""The job file of a pool's runs, and the submission of the pool."""
import math
import os
import re
import shlex
import typing as tp
from pathlib import Path

from submitit.core import utils

from . import calls
from .job import pool_folder

MOST_GPUS, MOST_CPU_RUNS = 4, 8
"""Maximum GPUs of an allocation, or concurrent runs without GPUs, unless the user sets a number or a single function needs more."""

MOST_MINUTES = 12 * 60
"""The longest allocation, unless the user sets a time, or a single function takes longer."""

_START_S = 60
"""Seconds reserved in an allocation for starting functions. Before the end, they save during the signal's delay."""


def has_pools() -> bool:
    """Returns whether this hsched supports pools of several allocations and pools without GPUs; older ones support one allocation with GPUs."""
    return calls.knows("submit", "--pack")


def fits(parameters: tp.Dict[str, tp.Any]) -> bool:
    """Returns whether a pool can run functions with these parameters: each is one task on one node."""
    is_single = parameters.get("nodes", 1) == 1 and parameters.get("ntasks_per_node", 1) in (None, 1)
    others = ("gres", "gpus_per_task", "num_gpus", "mem_per_cpu", "exclusive", "nodelist", "dependency", "srun_args", "additional_parameters")
    gpus = parameters.get("gpus_per_node") or 0
    return is_single and isinstance(gpus, int) and not any(parameters.get(name) for name in others) and (gpus > 0 or has_pools())


def job_file(ids: tp.Sequence[str], folder: Path, python_command: str, parameters: tp.Dict[str, tp.Any], max_num_timeout: int) -> tp.Dict[str, tp.Any]:
    """Returns the job file: one job per function, with an epoch for each permitted timeout, and two more."""
    epochs, devices = max_num_timeout + 2, devices_of(parameters)
    prefix = re.sub(r"[^A-Za-z0-9_.-]", "_", parameters.get("job_name", "submitit"))
    jobs = []
    for index, job_id in enumerate(ids):
        job: tp.Dict[str, tp.Any] = {
            "name": "%s-%d" % (prefix, index), "model": prefix, "samples_per_epoch": devices, "epochs": epochs, "global_batch": devices, "model_size": 0, "gpus": devices, "retries": 0,
            "command": shell_line(folder, job_id, python_command, parameters, epochs),
            "env": {"SUBMITIT_EXECUTOR": "hsched", "SUBMITIT_HSCHED_JOB_ID": job_id, "SUBMITIT_HSCHED_TIMEOUTS": str(max_num_timeout),
                    "SUBMITIT_HSCHED_SIGNAL_DELAY_S": str(parameters.get("signal_delay_s", 90))},
            # hsched writes the output of a run to NAME.out there; the function starts in the directory of the submission.
            "workdir": str(pool_folder(folder, job_id)),
            "checkpoint": {"dir": str(pool_folder(folder, job_id) / "checkpoints" / str(index)), "grace": "%ds" % parameters.get("signal_delay_s", 90)}}
        types = [part.split(":")[0] for part in (parameters["gpu_type"] or "").split(",") if part] if parameters.get("gpus_per_node") else ["cpu"]
        if types:
            job["throughput"] = {kind: 1 for kind in types}  # no better value is known, and a function is not to be measured
        if parameters.get("cpus_per_task"):
            job["cpus_per_gpu"] = max(1, int(parameters["cpus_per_task"]) // devices)
        if parameters.get("cpus_per_gpu"):
            job["cpus_per_gpu"] = int(parameters["cpus_per_gpu"])
        if parameters.get("mem") or parameters.get("mem_per_gpu"):
            job["memory_per_gpu"] = "%dMiB" % (_mebibytes(str(parameters.get("mem_per_gpu") or parameters["mem"])) // (1 if parameters.get("mem_per_gpu") else devices))
        jobs.append(job)
    return {"jobs": jobs}


def shell_line(folder: Path, job_id: str, python_command: str, parameters: tp.Dict[str, tp.Any], epochs: int) -> str:
    """Returns the command of a run: the first rank calls the function, with its output in the files of submitit, and reports the end.

    A function whose result exists is not called again if the run was killed between result and report.
    """
    paths = utils.JobPaths(folder, job_id, 0)
    errors = "&1" if parameters.get("stderr_to_stdout") else ">" + shlex.quote(str(paths.stderr))
    output = ">>%s 2>%s" % (shlex.quote(str(paths.stdout)), errors)
    done = """printf '{"epoch": %d}\\n' >>"$HSCHED_REPORT\"""" % epochs
    return "\n".join([
        '[ "$RANK" = 0 ] || exit 0', "cd %s || exit" % shlex.quote(os.getcwd()), *(parameters.get("setup") or []),
        "if [ -e %s ]; then %s; exit 0; fi" % (shlex.quote(str(paths.result_pickle)), done),
        "%s %s" % (python_command, output), "status=$?", *(parameters.get("teardown") or []),
        "if [ $status = 0 ]; then %s; fi" % done, "exit $status"])


def arguments(file: Path, runs: int, parameters: tp.Dict[str, tp.Any]) -> tp.List[str]:
    """Returns the arguments of `hsched submit` for a pool or, if hsched does not support pools, for one allocation."""
    is_pool, on_gpus = has_pools(), bool(parameters.get("gpus_per_node"))
    each, at_most = devices_of(parameters), int(parameters["at_most"]) if is_pool else 1
    most = MOST_GPUS if on_gpus else MOST_CPU_RUNS
    gpus = parameters["gpus_per_allocation"] or max(each, min(most // each * each, math.ceil(runs / at_most) * each))
    parallel = max(1, int(parameters.get("array_parallelism", 256))) * each
    gpus, at_most = min(gpus, parallel), max(1, min(at_most, parallel // min(gpus, parallel)))
    if gpus % each:
        raise ValueError("gpus_per_allocation is %d, which is no multiple of gpus_per_node (%d)" % (gpus, each))
    limit, margin = math.ceil(parameters.get("time", 5)), math.ceil((parameters.get("signal_delay_s", 90) + _START_S) / 60)
    needed = limit * math.ceil(runs / (gpus // each * at_most)) + margin
    minutes = parameters["allocation_min"] or max(limit + margin, min(needed, MOST_MINUTES))
    kind = parameters["gpu_type"]
    if on_gpus and not is_pool and not kind:
        raise utils.FailedSubmissionError("this hsched needs the GPU type of a list of functions: update_parameters(hsched_gpu_type=...); `hsched inventory` lists them")
    wanted = ("cpu:%d" % gpus) if not on_gpus else kind if kind and ":" in kind else "%s%d" % (kind + ":" if kind else "", gpus)
    words = ["--pack", str(file), "--at-most", str(at_most)] if is_pool else ["--together", str(file)]
    words += ["--gpus", wanted, "--time", "%dm" % minutes]
    options = ["--%s=%s" % (name.replace("_", "-"), parameters[name]) for name in ("partition", "account", "qos", "constraint", "exclude", "mail_type", "mail_user") if parameters.get(name)]
    return words + (["--", *options] if options else [])


def devices_of(parameters: tp.Dict[str, tp.Any]) -> int:
    """Returns the devices of a run: its GPUs, or one CPU slot."""
    return int(parameters.get("gpus_per_node") or 1)


def _mebibytes(text: str) -> int:
    """Returns a memory size in MiB from the notation of Slurm and submitit: a number of MiB, or one with K, M, G, T or P."""
    read = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:I?B)?\s*", text.upper())
    if read is None:
        raise ValueError("the memory %r is no size: write a number with a unit, such as 4GB" % text)
    return math.ceil(float(read.group(1)) * 1024.0 ** ("KMGTP".index(read.group(2) or "M") - 1))
