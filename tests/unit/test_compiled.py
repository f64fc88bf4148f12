"""What is compiled before the tests start is what their processes import."""

from importlib.util import cache_from_source, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.support.compiled import compile_files


@pytest.mark.parametrize("name", ["test_one.py", "conftest.py"])
def test_pytest_finds_the_asserts_of_a_compiled_test_changed(
    name: str, tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text("def is_so():\n    assert [1] == [2]\n")
    compile_files(pytestconfig, [path])
    monkeypatch.delattr(rewrite, "_rewrite_test")
    loader = rewrite.AssertionRewritingHook(pytestconfig)
    spec = spec_from_file_location("compiled_before", path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)

    loader.exec_module(module)

    with pytest.raises(AssertionError, match="At index 0 diff"):
        module.is_so()


def test_python_finds_any_other_module_compiled(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    path = tmp_path / "support.py"
    path.write_text("number = 1\n")

    compile_files(pytestconfig, [path])

    assert Path(cache_from_source(str(path))).exists()
