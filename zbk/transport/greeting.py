"""HELLO at a bookie: what the bookie says of itself, and which clients it accepts.

Pure. The limit on connections is checked by the caller (``zbk.transport.admission``).
"""

import msgspec

from zbk.errors import MalformedMessageError, UnsupportedVersionError, WrongBookieError
from zbk.wire.messages import MAGIC, VERSION_MAX, VERSION_MIN, Hello, HelloAnswer


class Identity(msgspec.Struct, frozen=True):
    """What the bookie says and checks in a HELLO."""

    instance_id: str
    bookie_id: str
    incarnation: int
    credit_size: int
    entry_size_max: int

    def agree(self, hello: Hello) -> int:
        """Return the highest version of the protocol that both sides speak.

        Raises:
            MalformedMessageError: the message is not a HELLO of zbk.
            UnsupportedVersionError: both sides have no version in common.
            WrongBookieError: the client wants another bookie or another cluster.
        """
        if hello.magic != MAGIC:
            raise MalformedMessageError(f"magic {hello.magic!r} is not {MAGIC!r}")
        if hello.version_min > VERSION_MAX or hello.version_max < VERSION_MIN:
            raise UnsupportedVersionError(
                f"bookie {self.bookie_id} speaks versions {VERSION_MIN} to {VERSION_MAX}, "
                f"the client {hello.version_min} to {hello.version_max}"
            )
        for ours, theirs, noun in (
            (self.instance_id, hello.instance_id, "cluster instance"),
            (self.bookie_id, hello.bookie_id, "bookie"),
        ):
            if theirs and ours != theirs:
                raise WrongBookieError(f"this is {noun} {ours}, not {theirs}")
        return min(VERSION_MAX, hello.version_max)

    def check_incarnation(self, incarnation: int) -> None:
        """Raise ``WrongBookieError`` if a request is for another incarnation of the bookie."""
        if incarnation != self.incarnation:
            raise WrongBookieError(
                f"meant for incarnation {incarnation}, this is incarnation {self.incarnation}"
            )

    def answer(self, hello: Hello, version: int, *, is_readonly: bool) -> HelloAnswer:
        """Return the answer to a HELLO that was accepted."""
        return HelloAnswer(
            request_id=hello.request_id,
            incarnation=self.incarnation,
            version=version,
            instance_id=self.instance_id,
            bookie_id=self.bookie_id,
            credit_size=self.credit_size,
            entry_size_max=self.entry_size_max,
            is_readonly=is_readonly,
        )
