"""Hydra's launcher `hydra/launcher=hsched`. It needs hydra-core and hydra-submitit-launcher; without them, it is not available."""
