"""Mutated real messages in the decoder, in this process: a message, or a typed error.

``python -m tests.hostile decoder --seconds 600`` decodes for so much CPU time, and prints how many.
"""

import gc
import os
import sys
import time
from collections import Counter
from typing import Final

from tests.hostile.mutations import Mutations, real_requests
from zbk.errors import WireError, from_wire
from zbk.system.process import usage
from zbk.transport.bundles import parts_of
from zbk.wire import codec
from zbk.wire.messages import Bundle, Request

ROUND_COUNT: Final = 5_000
GROWTH_MAX: Final = 64 << 20
"""Bytes by which the process may grow."""
PROGRESS_S: Final = 30


def decoded(header: bytes, frames: list[bytes]) -> Request | Bundle | WireError:
    """Return what the decoder makes of a message."""
    try:
        request = codec.decode_request(header)
        if isinstance(request, Bundle):
            parts_of(request.parts, request.sizes, frames)
    except WireError as error:
        return error
    return request


class DecoderRun:
    """Decodes mutated messages of one seed, and counts the outcomes by kind."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.count = 0
        self._mutations = Mutations(seed, real_requests(7, bytes(16), 1))
        self._sizes: list[int] = []  # of the process

    @property
    def growth_size(self) -> int:
        """Bytes by which the process has grown since the first round."""
        return self._sizes[-1] - self._sizes[0]

    def round(self, count: int = ROUND_COUNT) -> None:
        """Decode some messages; an outcome that is neither a message nor a typed error fails."""
        gc.collect()  # it is off in tests: errors refer to their frames
        self._sizes.append(usage(os.getpid()).rss_size)
        for _ in range(count):
            header, *frames = self._mutations.next()
            outcome = decoded(header, frames)
            self.outcomes[type(outcome).__name__] += 1
            if isinstance(outcome, WireError):
                refused = codec.refusal(codec.peek_request_id(header), 1, outcome)
                assert codec.decode_answer(codec.encode(refused)) == refused
                assert type(from_wire(refused.code, tuple(refused.fields))) is type(outcome)
        self.count += count
        assert self.growth_size < GROWTH_MAX


def attack_decoder(seconds: int, seed: int) -> None:
    """Decode for so many seconds of CPU time, and print what came of it."""
    run = DecoderRun(seed)
    end_s = time.process_time() + seconds
    shown_s = time.monotonic()
    while time.process_time() < end_s:
        run.round()
        if time.monotonic() >= shown_s + PROGRESS_S:
            shown_s = time.monotonic()
            sys.stderr.write(f"{run.count:,} messages\n")
    used_s = time.process_time() - end_s + seconds
    lines = [f"{name:<24} {count:>12,}" for name, count in run.outcomes.most_common()]
    lines += [
        f"{run.count:,} messages of seed {seed} in {used_s:.0f} s of CPU time",
        f"the process grew by {run.growth_size / (1 << 20):.1f} MiB",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
