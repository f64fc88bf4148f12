"""Kills bookies with SIGKILL and starts them again; one at a time, now and then all at once."""

import random
import threading
from typing import Final

from tests.soak.mixed.shelf import Shelf
from zbk.cluster.local import LocalCluster

DOWN_MAX_S: Final = 3.0
ALL_SHARE: Final = 0.1  # of kills that take every bookie


class Killer:
    """Owns the cluster's processes while the run goes on."""

    def __init__(
        self,
        cluster: LocalCluster,
        shelf: Shelf,
        stop: threading.Event,
        dice: random.Random,
        *,
        interval_s: float,
    ) -> None:
        self._cluster = cluster
        self._shelf = shelf
        self._stop = stop
        self._dice = dice
        self._interval_s = interval_s
        self.spared: frozenset[int] = frozenset()
        """Bookies that live on from now on, so that their memory can be watched."""

    def run(self) -> None:
        """Kill and restart until the end; a bookie that does not come back is a violation."""
        while not self._stop.wait(self._interval_s * self._dice.uniform(0.5, 1.5)):
            everyone = [bookie.index for bookie in self._cluster.bookies]
            victims = [self._dice.choice([one for one in everyone if one not in self.spared])]
            if not self.spared and self._dice.random() < ALL_SHARE:
                victims = everyone
            try:
                for index in victims:
                    self._cluster.kill(index)
                self._shelf.note(kills=len(victims))
                self._stop.wait(self._dice.uniform(0, DOWN_MAX_S))
                for index in victims:
                    self._cluster.restart(index)
            except Exception as error:  # noqa: BLE001 - the report tells
                self._shelf.violated(f"bookies {victims} did not come back: {error}")
                return
