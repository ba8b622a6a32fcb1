//! Slurm's hostlist expressions, both ways: `gpu[01-03,7]` to names and names to the shortest text.
