# A recipe for Spack: save it as REPOSITORY/packages/hsched/package.py, with the URL and checksum of your tarball.
from spack.package import *


class Hsched(CargoPackage):
    """Plans deep-learning jobs on GPUs of different types and runs them on Slurm."""

    git = "file:///path/to/hsched"  # a clone that your build nodes can read

    license("MIT OR Apache-2.0")

    version("0.2.0", tag="v0.2.0")

    depends_on("rust@1.89:", type="build")
    depends_on("c", type="build")

    @run_after("install")
    def install_documents(self):
        for section in ("1", "5"):
            folder = join_path(self.prefix.share, "man", "man" + section)
            mkdirp(folder)
            for page in find("man", "*." + section, recursive=False):
                install(page, folder)
        install_tree("templates/hsched_ddp", self.prefix.lib.hsched.hsched_ddp)

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", self.prefix.lib.hsched)
