"""Logging of server processes: one line per event on standard error or in a file."""

import json
import logging
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Final

LOG_SIZE_MAX: Final = 16 * 1024 * 1024
"""Size at which a log file becomes ``<name>.1``, in bytes."""

_RECORD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonFormatter(logging.Formatter):
    """One JSON object per record; the fields of ``extra`` become keys.

    ``event`` is constant: the name in ``extra``, or the text of the line before its values are
    filled in, which are in ``values`` then.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": str(record.msg),
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _RECORD_FIELDS}
        if record.args and "event" not in vars(record):
            line["values"] = record.args
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; an exception follows on its own lines."""
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def log_to_stderr(log_format: str, log_level: str) -> None:
    """Send all log records of zbk, and warnings of its libraries, to standard error."""
    _log_to(logging.StreamHandler(sys.stderr), log_format, log_level)


def log_to_file(path: Path) -> None:
    """Append log records of zbk from INFO on to a private file. A full disk drops lines.

    Raises:
        OSError: the file cannot be opened.
    """
    from logging.handlers import RotatingFileHandler

    from zbk.system.private_file import open_private

    class PrivateFileHandler(RotatingFileHandler):
        def _open(self) -> TextIOWrapper:
            text = open(self.baseFilename, self.mode, encoding="utf-8", opener=open_private)  # noqa: SIM115 - the handler closes it
            assert isinstance(text, TextIOWrapper), "a text file"
            return text

    handler = PrivateFileHandler(path, maxBytes=LOG_SIZE_MAX, backupCount=1, encoding="utf-8")
    logging.raiseExceptions = False  # the terminal belongs to the command
    _log_to(handler, "text", "info")


def _log_to(handler: logging.Handler, log_format: str, log_level: str) -> None:
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("zbk").setLevel(log_level.upper())


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
