"""Who changes rights in a run, and who tries what it may not."""

from typing import Final

from tests.simulation.intruder import SimulatedIntruder
from tests.simulation.kernel import MS, Node
from tests.simulation.passwords import key_of, password_of
from tests.simulation.principals import RECOVERER, Rights
from tests.simulation.world import World
from zbk.errors import ZbkError
from zbk.metadata.records.ledger_grants import LedgerGrants
from zbk.protocol.ledger.access import Right, with_grant, without_grant
from zbk.protocol.ledger.metadata import LedgerMetadata

WAITS_MS: Final = (40, 40, 4)
"""Between two changes, times one to eight: at times the next one comes before bookies heard."""


class SimulatedAdministrator:
    """Takes rights away and gives them back, until faults stop; then everyone has what it had."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        assert world.rights is not None, "this run has rights"
        self._rights: Rights = world.rights
        session = world.session(name)
        self._grants = LedgerGrants(session)
        self._is_changing = False
        self.is_over = False
        self._act()

    def crash(self) -> None:
        """End the process: what was taken away stays away."""
        self.node.die()
        self.is_over = True

    def _act(self) -> None:
        if self._world.is_ending:
            self.is_over = True
            return
        tape = self._world.tape
        if self._rights.ledger_ids and not self._is_changing:
            tape.pick((self._turn_grant, self._turn_key))()
        self.node.after((1 + tape.draw(8)) * tape.pick(WAITS_MS) * MS, self._act)

    def _turn_key(self) -> None:
        """Remove a key, or give it back."""
        rights, tape = self._rights, self._world.tape
        name = tape.pick((RECOVERER, *sorted(rights.writers.values())))
        if name in rights.principals:
            rights.remove(name)
        else:
            rights.admit(name)
        self.node.trace(f"{name} has {'a' if name in rights.principals else 'no'} key")
        for bookie in self._world.bookies:
            bookie.hear_of_keys()

    def _turn_grant(self) -> None:
        """Revoke a grant, or give it again."""
        rights, tape = self._rights, self._world.tape
        ledger_id = tape.pick(rights.ledger_ids)
        name, right = tape.pick(
            ((RECOVERER, Right.RECOVER), (rights.writers[ledger_id], Right.APPEND))
        )

        def change(metadata: LedgerMetadata) -> dict[str, tuple[Right, ...]]:
            grants = metadata.known_access.grants
            turn = without_grant if right in grants.get(name, ()) else with_grant
            return dict(turn(grants, name, [right]))

        def done(outcome: LedgerMetadata | ZbkError) -> None:
            del outcome  # the watcher of the metadata has seen what became of it
            self._is_changing = False

        self._is_changing = True
        self._world.metadata.submit(self.node, lambda: self._grants.change(ledger_id, change), done)


class SimulatedGuest(SimulatedIntruder):
    """Knows the passwords, and may read; it fences, adds, reports LACs and syncs."""

    def _key_of(self, ledger_id: int) -> bytes:
        return key_of(ledger_id)

    def _password_of(self, ledger_id: int) -> bytes:
        return password_of(ledger_id)

    def _victims(self) -> list[int]:
        assert self._world.rights is not None, "this run has rights"
        current = self._world.metadata.current
        return [one for one in self._world.rights.ledger_ids if one in current]
