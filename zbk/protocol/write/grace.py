"""A grace time: how long something may stay wrong before it counts."""


class Grace:
    """Runs from the first look at something wrong until it is reset.

    >>> grace = Grace(100)
    >>> [grace.is_over(now_ms) for now_ms in (5, 60, 105)]
    [False, False, True]
    """

    __slots__ = (
        "_grace_ms",
        "_since_ms",
    )

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._since_ms: int | None = None

    def is_over(self, now_ms: int) -> bool:
        """Record that it is wrong now; return whether it has been for too long."""
        if self._since_ms is None:
            self._since_ms = now_ms
        return now_ms - self._since_ms >= self._grace_ms

    def reset(self) -> None:
        """Record that it is right again."""
        self._since_ms = None
