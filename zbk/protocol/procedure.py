"""Procedures: rules that do one thing at a time, written as generators.

    def round_steps(delay_ms: int) -> Steps[Effect, RoundResult]:
        counter = yield ReadCounter()          # the answer's value ...
        try:
            listed = yield ListLedgers()       # ... or its error, raised here
        except MetadataUnavailableError as error:
            return RoundResult(gave_up=str(error))
        ...

A procedure yields an *effect*, a request to its driver, and is resumed with the *answer*: a value,
or a ``ZbkError``. ``Procedure`` drives it, for actors, for the simulation and for tests: ``begin``
returns the first effect, ``answer`` the next one, ``None`` after the last. The procedure itself
does no I/O and reads no clock; to wait, it yields an effect.

If several requests are under way at the same time and their answers interleave, a machine with
events is the better form (``zbk.protocol.write.writer``).

    >>> def double(count: int) -> Steps[str, int]:
    ...     total = 0
    ...     for _ in range(count):
    ...         total += yield "a number, please"
    ...     return 2 * total
    >>> procedure = Procedure(double(2))
    >>> procedure.begin()
    'a number, please'
    >>> procedure.answer(3), procedure.answer(4)
    ('a number, please', None)
    >>> procedure.result
    14
"""

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar, cast

from zbk.errors import ZbkError

EffectT = TypeVar("EffectT")
ResultT = TypeVar("ResultT")

Steps: TypeAlias = Generator[EffectT, Any, ResultT]
"""The type of a procedure's generator: it yields effects, and returns the result."""


class Procedure(Generic[EffectT, ResultT]):
    """One run of a procedure. Not thread-safe: its owner serializes the calls."""

    def __init__(self, steps: Steps[EffectT, ResultT]) -> None:
        self._steps = steps
        self._result: ResultT | None = None
        self._is_begun = False
        self.effect: EffectT | None = None
        """The effect that waits for its answer; ``None`` before the beginning and after the end."""
        self.is_over = False
        """True once the procedure has returned, was stopped, or has raised an error."""

    @property
    def result(self) -> ResultT:
        """The value that the procedure returned. Only after its end."""
        assert self.is_over, "a procedure has a result after its end"
        return cast("ResultT", self._result)

    def begin(self) -> EffectT | None:
        """Run up to the first effect and return it; ``None`` if there is none.

        Raises:
            ZbkError: the procedure raised it and is over.
        """
        assert not self._is_begun, "a procedure begins once"
        self._is_begun = True
        return self._run(None)

    def answer(self, value: object) -> EffectT | None:
        """Resume with the answer to ``effect`` and return the next effect; ``None`` at the end.

        A ``ZbkError`` is raised where the procedure waits. Answers that come after the end are
        ignored.

        Raises:
            ZbkError: the procedure did not expect this error and is over.
        """
        if self.is_over:
            return None
        assert self.effect is not None, "an answer follows an effect"
        return self._run(value)

    def resume(self, carry_out: Callable[[EffectT], object]) -> EffectT | None:
        """Carry the effect out, and resume with its answer or with the ``ZbkError`` it raises.

        As ``answer``.
        """
        assert self.effect is not None, "an answer follows an effect"
        try:
            value = carry_out(self.effect)
        except ZbkError as error:
            value = error
        return self.answer(value)

    def stop(self) -> None:
        """End the procedure where it waits. Its result is ``None``."""
        self._steps.close()
        self._is_begun = self.is_over = True
        self.effect = None

    def _run(self, value: object) -> EffectT | None:
        self.effect = None
        try:
            if isinstance(value, ZbkError):
                self.effect = self._steps.throw(value)
            else:
                self.effect = self._steps.send(value)
        except StopIteration as end:
            self.is_over = True
            self._result = end.value
        except BaseException:
            self.is_over = True
            raise
        return self.effect
