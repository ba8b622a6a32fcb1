"""hsched as a cluster of submitit: `submitit.AutoExecutor(folder, cluster="hsched")`. See docs/submitit.md of hsched.

submitit finds both classes by its entry points. This package needs submitit 1.5; hsched itself does not.
"""
from .environment import HschedJobEnvironment
from .executor import HschedExecutor
from .job import HschedJob

__all__ = ["HschedExecutor", "HschedJob", "HschedJobEnvironment"]
