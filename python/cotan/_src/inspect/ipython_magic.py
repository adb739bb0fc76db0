"""The IPython magic `%%cotan`: which lines of a cell's gradients take the time."""

import argparse
import ast
import shlex
from typing import Any, NoReturn

from cotan._src.inspect.profile import profile
from cotan._src.inspect.source_table import source_table


class _Usage(Exception):  # noqa: N818 - a message for the reader of a notebook
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Usage(f"%%cotan: {message}\n{self.format_usage().strip()}")


def _parser() -> _Parser:
    parser = _Parser(
        prog="%%cotan",
        description="Run the cell, and show which lines of the functions that it differentiates "
        "take the time.",
        add_help=False,
    )
    parser.add_argument("--save", metavar="FILE", help="write a flame graph: .svg, .json, .txt")
    parser.add_argument("--into", metavar="NAME", help="bind the profile to a name")
    parser.add_argument("--primitives", action="store_true", help="show the tables of the profile")
    return parser


def cotan(line: str, cell: str | None = None, shell: Any = None) -> Any:
    """Run a cell (`%%cotan`) or a line (`%cotan`) under `ct.profile()`, and print where time went.

    %%cotan [--save FILE] [--into NAME] [--primitives]

    The first line has the phases: programs run, planned, derivatives written, Python. Then follow
    the lines of the functions that were recorded, with the time of each: *forward* is its own
    operations, *backward* what their derivatives took. As in any cell, the value of the last
    expression is the result.

    --save FILE     write a flame graph: .svg (a picture), .json (speedscope), .txt (stacks)
    --into NAME     bind the profile to a name of the notebook
    --primitives    print the tables by primitive and by line, too
    """
    if cell is None:
        # `%cotan f(x)`: the line is the code.
        options, cell = argparse.Namespace(save=None, into=None, primitives=False), line
    else:
        try:
            options = _parser().parse_args(shlex.split(line))
        except (_Usage, ValueError) as error:
            print(error)
            return None
    if not cell.strip():
        print(cotan.__doc__)
        return None
    work = profile()
    try:
        with work:
            result = _run(cell, shell)
    finally:
        # Also of a cell that raises: what ran before it.
        _show(work, options, shell)
    return result


def _run(cell: str, shell: Any) -> Any:
    """Run the code of a cell as the shell does; give the value of an expression at its end.

    What it raises reaches the shell, which shows it and stops what was to run after it.
    """
    text = shell.transform_cell(cell)
    # The name under which the shell finds its lines: for tracebacks, and for the table.
    name = shell.compile.cache(text, _number(shell), raw_code=cell)
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
    # `f(x);` asks for no output.
    has_value = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    is_quiet = text.rstrip().endswith(";")
    last = tree.body.pop() if has_value else None
    exec(shell.compile(tree, name, "exec"), shell.user_ns)  # noqa: S102 - the user's own cell
    if last is None:
        return None
    code = shell.compile(ast.Expression(last.value), name, "eval")
    value = eval(code, shell.user_ns)  # noqa: S307
    return None if is_quiet else value


def _number(shell: Any) -> int:
    """Give the number of the running cell: newer shells count on when it begins."""
    numbers = getattr(shell.compile, "_filename_map", {})
    return max(numbers.values(), default=int(shell.execution_count))


def _show(work: profile, options: argparse.Namespace, shell: Any) -> None:
    first, _, tables = str(work).partition("\n\n")
    print(first)
    if work.rows:
        print(f"\n{source_table(work.rows, lambda file: _cell_name(file, shell))}")
    else:
        print("\nNothing was computed: cotangents are lazy, read them in the cell.")
    if options.primitives and tables:
        print(f"\n{tables}")
    if options.save:
        work.save(options.save)
        print(f"\nwritten: {options.save}")
    if options.into:
        shell.user_ns[options.into] = work


def _cell_name(file: str, shell: Any) -> str | None:
    """Name a cell as the shell's tracebacks do, `Cell In[3]`; None for files."""
    name = getattr(shell.compile, "format_code_name", lambda _: None)(file)
    return " ".join(name) if name else None


def load_ipython_extension(shell: Any) -> None:
    """Give IPython the magics `%%cotan` and `%cotan`: called by `%load_ext cotan`.

    `shell` is the running `InteractiveShell`. Type `%%cotan?` for what the magic takes.
    """

    def run(line: str, cell: str | None = None) -> Any:
        return cotan(line, cell, shell)

    run.__doc__ = cotan.__doc__
    shell.register_magic_function(run, magic_kind="line_cell", magic_name="cotan")
