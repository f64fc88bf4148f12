"""Damaged copies of bytes, for the laws that every format keeps."""

from collections.abc import Iterator


def flipped(data: bytes, stride: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield copies with one bit changed, every ``stride``-th bit, and which bit that is."""
    for bit in range(0, 8 * len(data), stride):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bit, bytes(damaged)


def cut(data: bytes, stride: int = 1) -> Iterator[bytes]:
    """Yield all shorter beginnings, every ``stride``-th."""
    for size in range(0, len(data), stride):
        yield data[:size]
