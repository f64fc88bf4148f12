"""``python -m tests.hostile ATTACK``: what a bookie makes of a hostile peer, in numbers."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.hostile.connections import attack_with_connections
from tests.hostile.decoder import attack_decoder
from tests.hostile.multipart import attack_with_multipart
from tests.hostile.mutated import attack_with_mutations
from tests.hostile.reads import attack_with_reads

ATTACKS: Final[dict[str, Callable[[Path], None]]] = {
    "connections": attack_with_connections,
    "multipart": attack_with_multipart,
    "mutations": attack_with_mutations,
    "reads": attack_with_reads,
}


def main() -> None:
    """Run one attack in a folder of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("attack", choices=[*ATTACKS, "decoder"])
    parser.add_argument("--seconds", type=int, default=600, help="CPU time of the decoder")
    parser.add_argument("--seed", type=int, default=2, help="of the decoder's messages")
    arguments = parser.parse_args()
    if arguments.attack == "decoder":
        attack_decoder(arguments.seconds, arguments.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        ATTACKS[arguments.attack](Path(folder))


if __name__ == "__main__":
    main()
