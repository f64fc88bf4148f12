"""Whether a bookie's checkpoints have come to the end of its journal."""

from zbk.wire.messages import BookieInfo

NOTES_SIZE = 16 * 1024
"""An idle journal goes on noting what it has synced."""


def is_marked(info: BookieInfo) -> bool:
    """Return whether the mark is near the journal's end."""
    if ":" not in info.last_log_mark:
        return info.journal_write_size < NOTES_SIZE
    end_segment, end_offset = _position(info.journal_position)
    mark_segment, mark_offset = _position(info.last_log_mark)
    return end_segment == mark_segment and end_offset - mark_offset < NOTES_SIZE


def _position(text: str) -> tuple[int, int]:
    segment, offset = text.partition(" ")[0].split(":")
    return int(segment, 16), int(offset)
