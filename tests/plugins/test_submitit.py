"""submitit through hsched on a real Slurm: single functions, lists, failures, cancellation, time limits and the end of an allocation."""
import json
import os
import pickle
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest
import submitit
from hsched_submitit import executor as plugin
from submitit.core import utils

PATIENCE_S = 180.0


def add(one: int, other: int) -> int:
    return one + other


def fail() -> None:
    raise ValueError("on purpose")


def wait_for(what: str, ready: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = ready()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError("%s: not within %g s" % (what, PATIENCE_S))


class Counter:
    """Counts its checkpoints and records the count at each start; ends at start number `starts` or when `go` exists."""

    def __init__(self, folder: Path, starts: int) -> None:
        self.folder, self.starts, self.count = folder, starts, 0

    def __call__(self) -> int:
        with open(self.folder / "starts", "a") as file:
            file.write("%d\n" % self.count)
        while not (self.folder / "go").exists() and len(lines(self.folder / "starts")) < self.starts:
            time.sleep(0.05)
        return self.count

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        self.count += 1
        return submitit.helpers.DelayedSubmission(self)


def lines(path: Path) -> List[str]:
    return path.read_text().split() if path.exists() else []


def test_a_function_is_a_job_that_hsched_follows(executor: submitit.AutoExecutor, tmp_path: Path) -> None:
    executor.update_parameters(name="adding")
    job = executor.submit(add, 5, 7)
    assert job.result() == 12
    assert job.job_id.isdigit() and job.done()
    shown = json.loads(subprocess.check_output(["hsched", "status", "--format", "json"]))
    assert [own["job_id"] for own in shown["scripts"]] == [job.job_id]
    assert shown["scripts"][0]["name"].startswith("adding-")


def test_lists_are_pools(executor: submitit.AutoExecutor) -> None:
    jobs = executor.map_array(add, range(6), range(0, 60, 10))
    assert [job.result() for job in jobs] == [0, 11, 22, 33, 44, 55]
    assert len({job.job_id for job in jobs}) == 6
    with executor.batch():
        batch = [executor.submit(add, 1, 1), executor.submit(fail), executor.submit(os.getcwd)]
    assert batch[0].result() == 2 and batch[2].result() == os.getcwd()
    with pytest.raises(utils.FailedJobError, match="on purpose"):
        batch[1].result()
    states = wait_for("the end", lambda: [job.watcher.get_state(job.job_id, "force") for job in batch] if batch[1].watcher.get_state(batch[1].job_id, "force") == "FAILED" else None)
    assert states[1] == "FAILED"
    assert "Job completed successfully" in (batch[0].stdout() or "")


def test_errors_and_output_in_one_file(executor: submitit.AutoExecutor) -> None:
    executor.update_parameters(stderr_to_stdout=True)
    jobs = executor.map_array(os.system, ["echo to output", "echo to errors >&2"])
    assert [job.result() for job in jobs] == [0, 0]
    assert "to errors" in (jobs[1].stdout() or "") and jobs[1].stderr() is None


def test_a_run_of_a_pool_is_cancelled_alone(executor: submitit.AutoExecutor, tmp_path: Path) -> None:
    jobs = executor.submit_array([Counter(tmp_path, 9), lambda: 3])
    wait_for("a start", lambda: lines(tmp_path / "starts"))
    assert jobs[1].result() == 3
    jobs[0].cancel()
    wait_for("the end", lambda: jobs[0].watcher.get_state(jobs[0].job_id, "force") == "CANCELLED")


def test_a_checkpoint_at_the_time_limit(executor: submitit.AutoExecutor, tmp_path: Path) -> None:
    """A function that ends at its third start completes; one that times out more times than allowed fails."""
    executor._executor.parameters.update(time=0.1, signal_delay_s=5)  # six seconds
    (tmp_path / "enough").mkdir()
    (tmp_path / "never").mkdir()
    executor._executor.max_num_timeout = 2
    jobs = executor.submit_array([Counter(tmp_path / "enough", 3), Counter(tmp_path / "never", 99)])
    assert jobs[0].result() == 2
    assert lines(tmp_path / "enough" / "starts") == ["0", "1", "2"]
    with pytest.raises(utils.UncompletedJobError, match="timed-out too many times"):
        jobs[1].result()
    assert lines(tmp_path / "never" / "starts") == ["0", "1", "2"]


def test_a_checkpoint_at_the_end_of_an_allocation(executor: submitit.AutoExecutor, tmp_path: Path) -> None:
    """The function saves, and resumes in the next allocation; one that cannot save starts over."""
    executor.update_parameters(timeout_min=120)
    (tmp_path / "other").mkdir()
    plain = Counter(tmp_path / "other", 2)
    jobs = executor.submit_array([Counter(tmp_path, 2), plain.__call__])
    wait_for("both starts", lambda: lines(tmp_path / "starts") and lines(tmp_path / "other" / "starts"))
    pool = json.loads(next((tmp_path / "logs").glob("*_hsched/pool.json")).read_text())
    for job_id in pool["slurm_jobs"]:
        subprocess.check_call(["scancel", "--signal=USR1", "--batch", job_id])
    assert jobs[0].result() == 1
    assert jobs[1].result() == 0
    assert lines(tmp_path / "starts") == ["0", "1"] and lines(tmp_path / "other" / "starts") == ["0", "0"]


def test_a_pool_whose_slurm_jobs_are_gone_has_ended(executor: submitit.AutoExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = executor.submit_array([Counter(tmp_path, 9), Counter(tmp_path, 9)])
    wait_for("a start", lambda: lines(tmp_path / "starts"))
    pool = json.loads(next((tmp_path / "logs").glob("*_hsched/pool.json")).read_text())
    assert jobs[0].watcher.get_state(jobs[0].job_id, "force") in ("PENDING", "RUNNING")
    subprocess.check_call(["scancel", "--signal=KILL", "--full", *pool["slurm_jobs"]])
    monkeypatch.setattr("hsched_submitit.job.GONE_S", 1.0)
    wait_for("the end", lambda: jobs[0].watcher.get_state(jobs[0].job_id, "force") == "CANCELLED")


def rank() -> Tuple[int, int, str]:
    environment = submitit.JobEnvironment()
    return environment.global_rank, environment.num_tasks, environment.cluster


def test_the_examples_of_the_documentation(executor: submitit.AutoExecutor) -> None:
    """Several tasks, a command, and a sequence of functions: with one changed word."""
    executor.update_parameters(tasks_per_node=2)
    job = executor.submit(rank)
    assert job.num_tasks == 2
    assert job.results() == [(0, 2, "hsched"), (1, 2, "hsched")]
    executor.update_parameters(tasks_per_node=1)
    sequence = submitit.helpers.FunctionSequence()
    sequence.add(add, 4, 5)
    sequence.add(add, 1, 2)
    jobs = executor.submit_array([submitit.helpers.CommandFunction(["echo", "hello"], verbose=False), sequence, rank])
    assert jobs[0].result() == "hello"
    assert jobs[1].result() == [9, 3]
    assert jobs[2].result() == (0, 1, "hsched")
    again = pickle.loads(pickle.dumps(jobs[0]))
    assert again.result() == "hello" and again.done() and again.exception() is None


def test_functions_without_gpus(executor: submitit.AutoExecutor) -> None:
    executor._executor.parameters.pop("gpus_per_node")
    jobs = executor.map_array(add, [1, 2, 3], [10, 20, 30])
    assert [job.result() for job in jobs] == [11, 22, 33]
    assert [job.job_id.split("_")[1] for job in jobs] == ["0", "1", "2"]
    executor.update_parameters(hsched_additional_parameters={"nice": 1})  # which a pool does not take
    jobs = executor.map_array(add, [1, 2, 3], [10, 20, 30])
    assert [job.result() for job in jobs] == [11, 22, 33] and all(job.job_id.split("_")[0].isdigit() for job in jobs)


def test_the_request_that_starts_first(executor: submitit.AutoExecutor) -> None:
    def change(options: List[str], sooner_s: Any, may: Any = None) -> Any:
        return {"options": options, "sooner_s": sooner_s, "may": may}
    shown = {"script": {"changes": [change(["--partition=hi"], 60.0), change(["--time=10"], 600.0), change(["--account=b", "--partition=hi"], 900.0),
                                    change(["--gres=gpu:t4:1"], 1200.0, "t4"), change(["--partition=lo"], None)]}}
    assert plugin.first_change(shown, [""]) == []
    assert plugin.first_change(shown, ["partition"]) == ["--partition=hi"]
    assert plugin.first_change(shown, ["partition", "limit"]) == ["--time=10"]
    assert plugin.first_change(shown, ["partition", "limit", "account"]) == ["--account=b", "--partition=hi"]
    assert plugin.first_change(shown, ["partition", "limit", "account", "type"]) == ["--gres=gpu:t4:1"]
    shown["script"]["changes"][0]["harmless"] = True
    assert plugin.first_change(shown, [""]) == ["--partition=hi"]
    assert plugin.first_change({"script": None}, ["partition"]) == []
    executor.update_parameters(hsched_queue=True, hsched_may="partition")
    assert executor.submit(add, 1, 2).result() == 3


def test_what_cannot_be_is_said(executor: submitit.AutoExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NameError, match="gpu_type"):
        executor.update_parameters(hsched_gpu_kind="v100")
    executor.update_parameters(hsched_partition="nowhere")
    with pytest.raises(utils.FailedSubmissionError, match="nowhere"):
        executor.submit(add, 1, 2)
    executor._executor.parameters.pop("partition")
    executor.update_parameters(gpus_per_node=2, hsched_gpus_per_allocation=3)
    with pytest.raises(ValueError, match="no multiple"):
        executor.map_array(add, [1, 2], [3, 4])
    executor.update_parameters(hsched_gpu_type="v100:2,t4:2")
    with pytest.raises(ValueError, match="of one type"):
        executor.submit(add, 1, 2)
    executor.update_parameters(hsched_gpu_type="v100")
    monkeypatch.setenv("HSCHED", "/nowhere/hsched")
    with pytest.raises(utils.FailedSubmissionError, match="/nowhere/hsched"):
        executor.submit(add, 1, 2)
