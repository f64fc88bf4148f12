"""``python -m tests.support.limited_bookie COUNT ...``: a bookie with so few file descriptors.

What follows are the arguments of ``zbk bookie run``. It cannot raise its limit again.
"""

import resource
import sys

from zbk.cli.main import main as zbk_command


def limited_program(descriptor_count: int) -> tuple[str, ...]:
    """Return the program of such a bookie, for ``LocalCluster``."""
    return ("-m", "tests.support.limited_bookie", str(descriptor_count))


def main() -> None:
    """Become the bookie."""
    count = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    sys.argv[1:] = ["bookie", "run", *sys.argv[2:]]
    zbk_command()


if __name__ == "__main__":
    main()
