"""What a run of the simulation does without: log records, and a garbage collector in its middle."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNGEST: Final = 0
"""The generation that objects stay in while the collector is off."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Switch off log records and the collector of cycles; collect once at the end.

    The world of a run is one large cycle. Collections in its middle find nothing and take a fifth
    of its time. All of it is younger than the context, so the collection at the end leaves out
    what was there before: in a process of pytest that is several times as much as a world.
    """
    disabled_level = logging.root.manager.disable
    is_quiet = disabled_level >= logging.CRITICAL  # a change empties the cache of each logger
    if not is_quiet:
        logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if not is_quiet:
            logging.disable(disabled_level)
        gc.collect(YOUNGEST)
