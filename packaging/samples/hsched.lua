-- A module file for Lmod: put it at MODULEPATH/hsched/0.2.0.lua, and the tarball's content at the prefix below.
help([[
hsched plans deep-learning jobs over GPUs of different kinds and runs them on Slurm.
Begin with: hsched doctor, hsched init, man hsched
]])
whatis("Name: hsched")
whatis("Version: 0.2.0")
whatis("Description: plans deep-learning jobs over GPUs of different kinds and runs them on Slurm")

local prefix = "/opt/hsched/0.2.0"

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
append_path("MANPATH", "")  -- the usual pages, too
-- For `import hsched_ddp` in programs that are not started by hsched.
prepend_path("PYTHONPATH", pathJoin(prefix, "lib/hsched"))
-- bash-completion looks for completions below these.
prepend_path("XDG_DATA_DIRS", pathJoin(prefix, "share"))
append_path("XDG_DATA_DIRS", "/usr/local/share:/usr/share")
