"""Nothing that zbk reads is code: no module can run data, and a pickle bomb stays bytes."""

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, Shell, lone_ledger
from tests.support.distributions import ROOT
from tests.support.http import ask
from zbk.cluster.local import LocalCluster
from zbk.metadata.paths import PRINCIPALS
from zbk.metadata.stores.connect import open_store

MODULES = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "code", "runpy"}
CALLS = {
    "eval", "exec", "compile", "__import__", "recv_pyobj", "send_pyobj", "os.system", "os.popen",
    "yaml.load", "pickle.loads", "pickle.load", "marshal.loads",
}  # fmt: skip


def dangerous_names(text: str) -> Iterator[str]:
    """Yield what of a module could run data: imports, calls, and commands through a shell."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield module
            case ast.Call(func=func, keywords=keywords):
                called = ast.unparse(func)
                if called in CALLS or called.rpartition(".")[2] in {"recv_pyobj", "send_pyobj"}:
                    yield called
                yield from (one.arg for one in keywords if one.arg == "shell")
            case _:
                pass


def test_no_module_can_run_data() -> None:
    files = sorted((ROOT / "zbk").rglob("*.py"))
    assert len(files) > 300
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in dangerous_names(path.read_text())
    }
    assert found == set()


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from marshal import loads", "eval(x)", "socket.recv_pyobj()",
        "subprocess.run(x, shell=True)", "import yaml.reader", "os.system(x)",
    ],
)  # fmt: skip
def test_the_search_finds_each_kind(text: str) -> None:
    assert len(list(dangerous_names(text))) == 1


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.write_text, (self._path, "it went off")


def test_a_bomb_is_inert(tmp_path: Path) -> None:
    """As payload, as custom metadata, as password, in a message, and in place of a record."""
    fuse = tmp_path / "fuse"
    bomb = pickle.dumps(Bomb(fuse))
    pickle.loads(bomb)  # noqa: S301 - our own
    assert fuse.exists(), "it works"
    fuse.unlink()

    with (
        LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=QUICK) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
    ):
        (bookie,) = cluster.bookies
        with client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1,
            custom_metadata={"bomb": bomb}, password=bomb,
        ) as ledger:  # fmt: skip
            ledger.append(bomb)
        ledger_id = ledger.ledger_id
        with client.open_ledger(ledger_id, bomb) as reader:
            assert [one.payload for one in reader.read(0, 0)] == [bomb]
        shell = Shell(tmp_path, {"ZBK_METADATA": cluster.metadata_uri})
        shell.run("ledger", "show", str(ledger_id))
        for path in ("/api/v1/ledger/metadata", "/api/v1/ledger/read"):
            ask(f"{bookie.http}{path}?ledger_id={ledger_id}", headers={"ZBK-Password": "x"})
        assert ask(f"{bookie.http}/api/v1/bookie/gc", "PUT", body=bomb).status >= 400

        store = open_store(cluster.metadata_uri)
        try:
            store.create(PRINCIPALS, bomb)
        finally:
            store.close()
        done = shell.run("principal", "ls", exit_code=4)
        assert b"Traceback" not in done.stderr
        with lone_ledger(client) as other:
            other.append(b"the bookie goes on")
        assert not cluster.deaths()
    assert not fuse.exists()
