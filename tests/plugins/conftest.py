"""The cluster and the program are those of `tests/submitit`, which sets SLURM_CONF, PATH and HSCHED_STATE_DIR."""
from pathlib import Path

import pytest
import submitit


@pytest.fixture(name="executor")
def _executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> submitit.AutoExecutor:
    """An executor whose functions take one V100 each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSCHED_STATE_DIR", str(tmp_path / "state"))
    executor = submitit.AutoExecutor(tmp_path / "logs", cluster="hsched")
    executor.update_parameters(timeout_min=5, gpus_per_node=1, hsched_gpu_type="v100", hsched_queue=False)
    return executor
