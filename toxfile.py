"""What tox.ini cannot say: an environment whose tests run on an interpreter that tox does not see."""

from __future__ import annotations

import shutil

from tox.plugin import impl
from tox.tox_env.errors import Skip
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class UnderNode(VirtualEnvRunner):
    """``runner = node``: Python under Node; an interpreter of any version fetches what it needs."""

    @staticmethod
    def id() -> str:
        return "node"

    @classmethod
    def extract_base_python(cls, env_name: str) -> str | None:
        """The version in the environment's name is not that of the interpreter that fetches."""
        return None

    def _setup_env(self) -> None:
        for program in ("node", "npm"):
            if shutil.which(program) is None:
                raise Skip(f"could not find {program}")
        super()._setup_env()


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    register.add_run_env(UnderNode)
