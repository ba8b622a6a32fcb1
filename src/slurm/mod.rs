//! Slurm's commands as values, one runner, and one pure parser per command.
