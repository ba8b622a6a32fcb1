//! Real training under a real Slurm.
