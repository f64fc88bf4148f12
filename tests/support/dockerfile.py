"""The instructions of a Dockerfile, for tests that run its commands without a daemon."""

import json
import re
from pathlib import Path

import msgspec


class Stage(msgspec.Struct, kw_only=True):
    """What follows one FROM."""

    image: str
    instructions: list[tuple[str, str]]  # name and argument, with continued lines joined

    def all_of(self, name: str) -> list[str]:
        """Return the arguments of all instructions with this name."""
        return [argument for found, argument in self.instructions if found == name]

    def one(self, name: str) -> str:
        """Return the argument of the only instruction with this name."""
        (argument,) = self.all_of(name)
        return argument

    def command(self, name: str) -> list[str]:
        """Return the words of a CMD, also of that of a HEALTHCHECK. The exec form is required."""
        words = json.loads(self.one(name)[self.one(name).index("[") :])
        assert isinstance(words, list)
        return words

    def environment(self) -> dict[str, str]:
        """Return the variables of ENV."""
        pairs = [word.partition("=") for text in self.all_of("ENV") for word in text.split()]
        return {name: value for name, _, value in pairs}


def stages(path: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    text = re.sub(r"^#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        name, _, argument = line.strip().partition(" ")
        if name == "FROM":
            found.append(Stage(image=argument.split()[0], instructions=[]))
        elif name:
            found[-1].instructions.append((name, argument.strip()))
    return found
