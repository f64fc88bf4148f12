"""The rule of an ephemeral node's holder, and of a registration's next step, against slow twins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.metadata.records.node_claim import Holder, NodeClaim, RegistrationPlan, Step

OWN, WITHDRAWN = "own attempt", "withdrawn"
WAIT_MS = 100
PATH, OTHER_PATH = "/available/b1", "/available/readonly/b1"
STRANGER = b"stranger"


@given(st.lists(st.sampled_from([OWN, WITHDRAWN]), max_size=8), st.integers(-2, 8))
def test_a_claim_knows_each_of_its_attempts(events: list[str], found: int) -> None:
    """The twin keeps the whole history and searches it."""
    claim, history = NodeClaim(), list[tuple[str, bytes]]()
    for number, event in enumerate(events):
        value = b"%d" % number
        history.append((event, value))
        if event == OWN:
            claim.begin(value)
        else:
            claim.withdraw()
    node = {-2: None, -1: STRANGER}.get(found, b"%d" % found)

    attempts = [value for event, value in history if event == OWN]
    is_last_open = bool(history) and history[-1][0] == OWN
    if node is None:
        expected = Holder.NOBODY
    elif node not in attempts:
        expected = Holder.OTHER
    elif is_last_open and node == attempts[-1]:
        expected = Holder.OURS
    else:
        expected = Holder.FORMER
    assert claim.holder(node) is expected
    assert claim.is_open == is_last_open


class SlowPlan:
    """Keeps everything that happened, and looks at all of it for each step."""

    def __init__(self) -> None:
        self.attempts: list[bytes] = []
        self.looks: list[tuple[int, str]] = []  # when, and who held the node: or "" for unknown

    def step(self, found: bytes | None, now_ms: int) -> Step:
        if found is None:
            self.looks.append((now_ms, "nobody"))
            return Step.CREATE
        if self.attempts and found == self.attempts[-1]:
            self.looks.append((now_ms, "ours"))
            return Step.REGISTER
        if found in self.attempts:
            self.looks.append((now_ms, "former"))
            return Step.REMOVE_FORMER
        self.looks.append((now_ms, "other"))
        since_ms = now_ms
        for when_ms, holder in reversed(self.looks):
            if holder in ("", "ours"):
                break
            if holder == "other":
                since_ms = when_ms
        return Step.GIVE_UP if now_ms - since_ms > WAIT_MS else Step.WAIT_FOR_OTHER


EVENTS = st.sampled_from(
    ["look", "stranger", "vanish", "create", "lost", "late", "disconnect", "again"]
)


@given(st.lists(st.tuples(EVENTS, st.integers(0, 60)), max_size=30))
def test_a_registration_takes_the_step_of_its_slow_twin(events: list[tuple[str, int]]) -> None:
    plan, twin = RegistrationPlan(WAIT_MS), SlowPlan()
    node: bytes | None = None
    now_ms, counter = 0, 0
    for event, passed_ms in events:
        now_ms += passed_ms
        match event:
            case "stranger":
                node = STRANGER
            case "vanish":
                node = None
            case "disconnect":
                assert plan.disconnected() is Step.WAIT
                twin.looks.append((now_ms, ""))
            case "create" | "lost":  # "lost": the request itself, so the node stays as it is
                counter += 1
                value = b"%d" % counter
                plan.claim(PATH).begin(value)
                twin.attempts.append(value)
                if event == "create" and node is None:
                    node = value
                    plan.created()
                    twin.looks.append((now_ms, "ours"))
            case "late":  # the store applies the first attempt now
                if twin.attempts and node is None:
                    node = twin.attempts[0]
            case _:
                pass
        assert plan.step(PATH, node, now_ms) is twin.step(node, now_ms)


def test_the_node_of_the_other_mode_is_claimed_by_itself() -> None:
    plan = RegistrationPlan(WAIT_MS)
    plan.claim(PATH).begin(b"1")
    plan.claim(OTHER_PATH).begin(b"2")
    plan.claim(PATH).withdraw()

    assert plan.open_paths() == [OTHER_PATH]
    assert plan.step(OTHER_PATH, b"2", 0) is Step.REGISTER
    assert plan.step(PATH, b"1", 0) is Step.REMOVE_FORMER


@pytest.mark.parametrize(("now_ms", "step"), [(100, Step.WAIT_FOR_OTHER), (101, Step.GIVE_UP)])
def test_another_process_gets_its_time_to_go(now_ms: int, step: Step) -> None:
    plan = RegistrationPlan(WAIT_MS)
    assert plan.step(PATH, STRANGER, 0) is Step.WAIT_FOR_OTHER

    assert plan.step(PATH, STRANGER, now_ms) is step
