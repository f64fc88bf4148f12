"""A container without a daemon: its environment and commands, in a folder in place of ``/data``."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.machine import patient_s
from zbk.cli.generate.containers import BOOKIE_PORT, CONSOLE_PORT, HTTP_PORT, TOKEN_DIR
from zbk.system.ports import free_ports


class Container:
    """What an image or a manifest starts. Ports of its own replace those of its texts."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        ports = (BOOKIE_PORT, HTTP_PORT, CONSOLE_PORT)
        self.ports = {str(port): str(free_ports(1)[0]) for port in ports}
        scratch = folder / "tmp"
        scratch.mkdir(exist_ok=True)
        (folder / "data").mkdir(exist_ok=True)
        self.token_dir = folder / "run"
        self.token_dir.mkdir(exist_ok=True)
        own = {name: self.here(value) for name, value in environment.items() if name != "PATH"}
        self.environment = own | {
            "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "ZBK_METADATA": f"sqlite://{folder}/metadata.db",
        }

    def here(self, text: str) -> str:
        """Return a text for this folder and these ports."""
        for port, own in self.ports.items():
            text = text.replace(f":{port}", f":{own}").replace(f", {port},", f", {own},")
        text = text.replace(TOKEN_DIR, str(self.token_dir))
        return text.replace("/data", f"{self._folder}/data")

    def run(self, words: Sequence[str]) -> int:
        """Run a command; return its exit code."""
        done = subprocess.run(
            [self.here(word) for word in words],
            env=self.environment,
            capture_output=True,
            timeout=patient_s(60),
            check=False,
        )
        return done.returncode

    @contextmanager
    def started(
        self, words: Sequence[str], prefix: Sequence[str] = ()
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Yield the process of a command, below a program that makes its sandbox."""
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*prefix, *map(self.here, words)],
                env=self.environment,
                cwd=self._folder / "data",
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
