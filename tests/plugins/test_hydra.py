"""A Hydra app of the usual kind, with one changed word: hydra/launcher=hsched."""
import json
import subprocess
import sys
from pathlib import Path

APP = '''
import json, os
import hydra
from omegaconf import DictConfig

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg: DictConfig) -> float:
    with open("result.json", "w") as file:
        json.dump({"product": cfg.lr * cfg.size, "executor": os.environ["SUBMITIT_EXECUTOR"]}, file)
    return cfg.lr * cfg.size

if __name__ == "__main__":
    main()
'''


def test_a_multirun_goes_through_hsched(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "config.yaml").write_text("lr: 1\nsize: 1\n")
    words = [sys.executable, "app.py", "--multirun", "hydra/launcher=hsched", "hydra.launcher.gpus_per_node=1", "hydra.launcher.gpu_type=v100", "hydra.launcher.timeout_min=5",
             "hydra.sweep.dir=out", "hydra.job.chdir=true", "lr=1,2,3", "size=10,20"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    assert done.returncode == 0, done.stdout
    results = [json.loads(path.read_text()) for path in sorted((tmp_path / "out").glob("*/result.json"))]
    assert [own["product"] for own in results] == [10, 20, 20, 40, 30, 60]
    assert {own["executor"] for own in results} == {"hsched"}


def test_the_launcher_takes_no_foreign_word(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "config.yaml").write_text("lr: 1\nsize: 1\n")
    words = [sys.executable, "app.py", "--multirun", "hydra/launcher=hsched", "hydra.launcher.gpu_kind=v100", "lr=1,2"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    assert done.returncode != 0 and "gpu_kind" in done.stdout
