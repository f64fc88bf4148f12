"""The log of a module: each line is an event with a constant name, and its values are fields.

``--log-format json`` writes the name as ``event``, and each value as a key of its own. The fields
are also attributes of the ``LogRecord``, for the handlers of a program that uses a client.
docs/reference/events.md lists the events. Any thread.
"""

import logging


class Names(list[str]):
    """Names as the value of an event: a list in JSON, separated by commas in the text."""

    def __str__(self) -> str:
        """Return the names, or "none"."""
        return ", ".join(self) or "none"


class EventLog:
    """Logs events. Each value that ``text`` names, as ``%(ledger_id)d``, is given as a field.

    A field must not be named like an attribute of ``LogRecord``, such as ``name``.

    >>> LOG = EventLog("zbk.example")
    >>> LOG.info("example.ended", "ledger %(ledger_id)d has ended", ledger_id=7)
    """

    def __init__(self, logger_name: str) -> None:
        self._logger = logging.getLogger(logger_name)

    def debug(self, event: str, text: str, /, **fields: object) -> None:
        """Log an event that matters only to who looks for an error of zbk."""
        self._log(logging.DEBUG, event, text, fields)

    def info(self, event: str, text: str, /, **fields: object) -> None:
        """Log an event of normal operation."""
        self._log(logging.INFO, event, text, fields)

    def warning(self, event: str, text: str, /, **fields: object) -> None:
        """Log an event that an operator should know of."""
        self._log(logging.WARNING, event, text, fields)

    def error(
        self, event: str, text: str, /, *, exc_info: BaseException | None = None, **fields: object
    ) -> None:
        """Log a failure; the process continues. A traceback follows if there is ``exc_info``."""
        self._log(logging.ERROR, event, text, fields, exc_info)

    def exception(self, event: str, text: str, /, **fields: object) -> None:
        """Log a failure, with the traceback of the exception that is handled now."""
        self._log(logging.ERROR, event, text, fields, exc_info=True)

    def critical(
        self, event: str, text: str, /, *, exc_info: BaseException | None = None, **fields: object
    ) -> None:
        """Log a failure that ends the process, or that may have cost data."""
        self._log(logging.CRITICAL, event, text, fields, exc_info)

    def log(self, level: int, event: str, text: str, /, **fields: object) -> None:
        """Log an event whose level depends on what happened."""
        self._log(level, event, text, fields)

    def _log(
        self,
        level: int,
        event: str,
        text: str,
        fields: dict[str, object],
        exc_info: BaseException | bool | None = None,
    ) -> None:
        fields["event"] = event
        self._logger.log(level, text, fields, exc_info=exc_info, extra=fields, stacklevel=3)
