"""The notebooks run in Jupyter's kernel, and print what their pages say: `make test-site`."""

import doctest
import re

import notebooks
import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def printed(cell):
    """Give what a cell shows as text; of an error its type and message."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "error":
            texts.append(f"{output.ename}: {output.evalue}")
        elif output.output_type == "stream":
            texts.append(output.text)
        else:
            texts.append(output.data.get("text/plain", ""))
    return "\n".join(text.rstrip("\n") for text in texts) + "\n"


@pytest.mark.parametrize("name", notebooks.NOTEBOOKS)
def test_a_notebook(name, tmp_path):
    book = nbformat.read(notebooks.OUT / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    # The kernel `python3` is that of this interpreter where it has ipykernel.
    nbclient.execute(book, cwd=str(tmp_path), timeout=60, kernel_name="python3")
    expected = notebooks.cells(name)
    assert [cell.source for cell in book.cells] == [cell.source for cell in expected]
    checker = doctest.OutputChecker()
    for cell, source in zip(book.cells, expected, strict=True):
        if source.want:
            # A session names the class of an error in full, the kernel does not.
            want = re.sub(r"Traceback.*?\n(?=\S)", "", source.want, flags=re.DOTALL)
            want = re.sub(r"^(?:\w+\.)+(?=\w+Error:)", "", want)
            assert checker.check_output(want, printed(cell), FLAGS), (source.source, printed(cell))
