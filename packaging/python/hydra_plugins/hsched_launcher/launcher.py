"""The launcher and its parameters in Hydra's configuration: those of submitit's Slurm launcher, and those of hsched's executor."""
import importlib.util
from dataclasses import dataclass
from typing import Optional

# Hydra imports all plugins, so without submitit's launcher, this one is silently unavailable.
if importlib.util.find_spec("hydra_plugins.hydra_submitit_launcher") is not None:
    from hydra.core.config_store import ConfigStore
    from hydra_plugins.hydra_submitit_launcher.config import SlurmQueueConf
    from hydra_plugins.hydra_submitit_launcher.submitit_launcher import BaseSubmititLauncher

    class HschedLauncher(BaseSubmititLauncher):  # type: ignore[misc]
        """Launches the jobs of a multirun through hsched."""

        _EXECUTOR = "hsched"

    @dataclass
    class HschedQueueConf(SlurmQueueConf):  # type: ignore[misc]
        """Parameters of the launcher."""

        _target_: str = "hydra_plugins.hsched_launcher.launcher.HschedLauncher"
        gpu_type: Optional[str] = None
        may: Optional[str] = None
        queue: bool = True
        at_most: int = 3
        gpus_per_allocation: Optional[int] = None
        allocation_min: Optional[int] = None

    ConfigStore.instance().store(group="hydra/launcher", name="hsched", node=HschedQueueConf(), provider="hsched")
