"""A link that carries several requests, and several answers, in one message.

What is sent in one instant leaves together, cut and encoded by the real ``zbk.transport.bundles``.
A message is lost, repeated or damaged as a whole. Peers of wire version 2 get each request alone.
"""

from collections.abc import Sequence
from typing import Any

from tests.simulation.kernel import Node
from tests.simulation.links import REQUEST_SIZE, ClientPool, Link
from tests.simulation.world import World
from zbk.errors import MalformedMessageError
from zbk.transport import bundles
from zbk.transport.bundles import BundleLimits, Part
from zbk.transport.inbound import Inbound
from zbk.wire import codec
from zbk.wire.messages import VERSION_MAX, VERSION_MIN, AnswerBundle, Bundle, Message


class BundlingLink(Link):
    """What a client with many ledgers has to one bookie.

    I41: what is handed to it leaves once, in order, whatever the messages are cut to.
    """

    def __init__(self, world: World, client: Node, bookie_id: str, limits: BundleLimits) -> None:
        super().__init__(world.network, client, bookie_id, world.request_timeout_ms)
        self._world = world
        self._limits = limits
        self._version = world.tape.pick((VERSION_MAX, VERSION_MAX, VERSION_MAX, VERSION_MIN))
        self._unsent: list[Inbound] = []
        self._unsent_life = 0
        self._answers: list[Part] = []
        self._answers_life = 0

    # ------------------------------------------------------------------ requests

    def _send_part(self, inbound: Inbound) -> None:
        if self._unsent_life != self.life:
            self._unsent, self._unsent_life = [], self.life
        self._unsent.append(inbound)
        if len(self._unsent) == 1:
            self.client.after(0, self._flush, self.life)

    def _flush(self, life: int) -> None:
        if life != self.life:
            return
        unsent, self._unsent = self._unsent, []
        peer = unsent[0].peer
        for group in self._groups([(inbound.request, inbound.frames) for inbound in unsent]):
            parts = self._decoded(bundles.request_frames(group, self._incarnation), peer)
            if parts:
                self.network.carry_requests(self, parts)

    def _groups(self, parts: list[Part]) -> Sequence[Sequence[Part]]:
        groups = [list(group) for group in bundles.groups(parts, self._version, self._limits)]
        if [part for group in groups for part in group] != parts:
            text = f"{len(parts)} parts for {self.bookie_id} become others in messages"
            self._world.violated("I41", text)
        if any(len(group) > 1 for group in groups):
            self._world.sometimes["bundle: some in one message"] += 1
        if len(groups) > 1 and self._version == VERSION_MAX:
            self._world.sometimes["bundle: cut at its limit"] += 1
        return groups

    def _decoded(self, frames: Sequence[Any], peer: bytes) -> list[Inbound]:
        """Return the requests in a message, at times a truncated one, as the bookie decodes it."""
        whole = [bytes(frame) for frame in frames]
        header, life = codec.decode_request(whole[0]), self.network.identify(self.client)
        if not isinstance(header, Bundle):
            own = tuple(whole[1:])
            size = REQUEST_SIZE + sum(map(len, own))
            return [Inbound(peer, header, own, size, life=life)]
        if self.network.kernel.tape.chance(self.network.faults.drop_share):
            whole[-1] = whole[-1][:-1] or b"?"
        try:
            parts = bundles.parts_of(header.parts, header.sizes, whole[1:])
        except MalformedMessageError:
            self._world.sometimes["bundle: truncated, and refused as a whole"] += 1
            return []
        return [
            Inbound(peer, request, own, REQUEST_SIZE + sum(map(len, own)), life=life)
            for request, own in parts
        ]

    # ------------------------------------------------------------------ answers

    def answer_with(self, source: Node, life: int, part: Part) -> None:
        """Send an answer back, with all that the bookie gives in this instant."""
        if self._answers and self._answers_life != life:
            super().answer_with(source, life, part)  # of a life that is over: nobody takes it
            return
        self._answers_life = life
        self._answers.append(part)
        if len(self._answers) == 1:
            self.network.kernel.after(0, self._flush_answers, source)

    def _flush_answers(self, source: Node) -> None:
        answers, self._answers = self._answers, []
        for group in self._groups(answers):
            for frames in bundles.answer_messages(group):
                parts = _answers_in([bytes(frame) for frame in frames])
                self.network.carry_answers(source, self, self._answers_life, parts)


def _answers_in(frames: Sequence[bytes]) -> list[tuple[Message, tuple[bytes, ...]]]:
    header = codec.decode_answer(frames[0])
    if isinstance(header, AnswerBundle):
        return list(bundles.parts_of(header.parts, header.sizes, frames[1:]))
    return [(header, tuple(frames[1:]))]


class BundlingPool(ClientPool):
    """All links of one client with many ledgers."""

    def __init__(self, world: World, node: Node, limits: BundleLimits) -> None:
        super().__init__(world.network, node, world.request_timeout_ms)
        self._world = world
        self._limits = limits

    def _make_link(self, bookie_id: str) -> Link:
        return BundlingLink(self._world, self._node, bookie_id, self._limits)
