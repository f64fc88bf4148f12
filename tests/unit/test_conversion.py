"""Conversions to structs in several threads at once: none reads what another one half built."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONVERSION = ROOT / "zbk/conversion.py"

PROGRAM = """
import sys, threading, types
import msgspec
from zbk.conversion import convert, decode_json

sys.setswitchinterval(1e-6)
SOURCE = '''
class Inner(msgspec.Struct, frozen=True):
    numbers: tuple[int, ...] = ()
    text: str | None = None

class Outer(msgspec.Struct, frozen=True):
    one: int = 0
    several: tuple[Inner, ...] = ()
    named: dict[str, Inner] = {}
    last: Inner | None = None
'''


def convert_in(kind, barrier):
    barrier.wait()
    convert({"one": 1, "several": [{"numbers": [1]}], "named": {"a": {}}}, kind)
    decode_json('{"last": {"text": "x"}}', kind)


for number in range(100):  # without the lock the first or second one is the last
    module = types.ModuleType(f"made{number}")
    module.msgspec = msgspec
    sys.modules[module.__name__] = module
    exec(SOURCE, module.__dict__)
    barrier = threading.Barrier(4)
    threads = [
        threading.Thread(target=convert_in, args=(module.Outer, barrier)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("all converted")
"""


def test_threads_that_convert_to_a_type_for_the_first_time_do_not_end_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, "all converted\n"), ended.stderr


def unguarded(source: str) -> Iterator[str]:
    """Yield the calls of msgspec that build a type: conversions, typed decoding, decoders."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        is_typed = name.endswith(".decode") and any(one.arg == "type" for one in node.keywords)
        is_decoder = name.rpartition(".")[2] == "Decoder" and "ready(" not in ast.unparse(node)
        if name == "msgspec.convert" or (name.startswith("msgspec.") and (is_typed or is_decoder)):
            yield ast.unparse(node)


@pytest.mark.parametrize(
    "call",
    [
        "msgspec.convert(value, Kind)",
        "msgspec.json.decode(data, type=Kind)",
        "msgspec.msgpack.decode(data, type=Kind)",
        "msgspec.msgpack.Decoder(Kind)",
    ],
)
def test_an_unguarded_call_is_found(call: str) -> None:
    assert list(unguarded(f"found = {call}")) == [call]


def test_all_of_zbk_converts_through_the_module() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {call}"
        for folder in ("zbk", "spark", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != CONVERSION
        for call in unguarded(path.read_text(encoding="utf-8"))
    }

    assert found == set()
