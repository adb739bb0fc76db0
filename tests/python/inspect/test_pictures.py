"""Pictures: SVG, HTML, dot, Mermaid; what they show, and that no name can break out of them."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest

import cotan as ct
from cotan._src.inspect.diagram_layout import layered
from cotan._src.inspect.svg import svg

X = np.linspace(0.1, 1.0, 8)
HOSTILE = [
    "</script><b>bold</b>",
    "<!-- --> ]]> &amp; &#34;",
    "a \"quoted\" 'name'",
    "two\nlines\r\tand a tab",
    "\x00\x1b[31m\ufffe\udc80",
    '\\N \\l \\" \\',
    ']; n0[label=x]; subgraph y { " } end %% click',
    "größe 变量 🙂 \u202ertl",
    "x" * 500,
    "%0",
    "{}[]()<>|;:#`$",
]


def words(text):
    """All that an SVG shows, and the tips."""
    root = ET.fromstring(text)
    return [e.text or "" for e in root.iter() if e.tag.endswith(("}text", "}title"))]


def kinds(text):
    root = ET.fromstring(text)
    return {
        kind for e in root.iter() if e.tag.endswith("}g") for kind in e.get("class", "").split()
    }


def network(w, b, x):
    return np.sum(np.tanh(x @ w + b) ** 2)


@pytest.fixture
def back():
    return ct.pullback(network, np.ones((3, 2)), np.ones(2), ct.const(np.ones((4, 3))))[1]


def equations(program):
    """Variables of equations that a picture names; literals stand in their place."""
    first = len(program.inputs)
    return [first + k for k, e in enumerate(program.equations) if e.primitive != "literal"]


def test_every_equation_input_and_output_is_shown():
    program = ct.trace(network, np.ones((3, 2)), np.ones(2), np.ones((4, 3)))
    shown = "\n".join(words(program.to_svg()))
    for var in equations(program):
        assert f"%{var} = " in shown
    for variable in program.inputs:
        assert variable.name in shown
    assert "f64[3,2]" in shown
    assert kinds(program.to_svg()) >= {"cotan-input", "cotan-output", "cotan-group"}


def test_a_pullback_has_two_halves(back):
    text = back.to_svg()
    shown = "\n".join(words(text))
    assert "forward" in shown and "backward, keeps" in shown
    for half in (back.forward, back.program):
        for var in equations(half):
            assert f"%{var} = " in shown
    assert {"dw", "db", "dy", "w", "b", "x"} <= set(words(text))
    assert kinds(text) >= {"cotan-bound", "cotan-cotangent", "cotan-residual", "cotan-never"}
    assert 'class="cotan-kept"' in text
    dw, db, _ = back(np.ones(back.program.inputs[0].shape))
    np.asarray(dw), np.asarray(db)
    assert "cotan-gradient" in kinds(back.to_svg())
    assert "cotan-never" not in kinds(back.to_svg())


def test_what_is_kept_is_counted(back):
    kept = re.search(r"keeps ([\d.]+) B", back.to_svg())
    assert float(kept[1]) == back.nbytes


def test_cotangents_that_were_never_computed():
    _, back = ct.pullback(lambda x, c: np.sum(np.exp(x) * np.tanh(c)), X, X)
    text = svg(back, never=["c"])
    assert "cotan-never" in kinds(text)
    root = ET.fromstring(text)
    lost = [e.text for e in root.iter() if "cotan-lost" in (e.get("class") or "")]
    assert "dc" in lost
    assert "dx" not in lost
    only = len(back.program) - len(back.program.prune("dx"))
    literals = sum(e.primitive == "literal" for e in back.program.equations)
    assert only - literals <= len([t for t in lost if t.startswith("%")]) <= only
    assert "cotan-never" not in kinds(svg(back))


def test_groups_are_those_of_the_plan():
    program = ct.trace(lambda x: np.sum(np.sin(x) * x) + np.max(x), X)
    groups = program.fusion_groups()
    assert len(groups) == len(program)
    assert f"one pass, {groups.count(0)} equations" in words(program.to_svg())


def test_numbers_that_are_bound_are_shown():
    program = ct.trace(lambda x, y: x * 2.25 + y, X, 1.0)
    assert "%3 = mul(x, 2.25)" in words(program.to_svg())
    assert "y = 0.5" in words(program.bind(y=0.5).to_svg())


def test_kept_values_stand_next_to_what_reads_them():
    def chain(x):
        for _ in range(6):
            x = np.sin(x @ x)
        return np.sum(x)

    _, back = ct.pullback(chain, np.eye(3))
    pictures = ET.fromstring(back.to_svg())
    kept = [
        float(group.find("{*}rect").get("y"))
        for group in pictures.iter("{http://www.w3.org/2000/svg}g")
        if group.get("class") == "cotan-residual"
    ]
    assert len(kept) > 6
    assert len(set(kept)) == 6  # a row for each step


def test_many_equations_are_drawn_in_blocks():
    def long(x, w):
        for _ in range(100):
            x = np.tanh(w @ x) + x
        return x

    program = ct.trace(long, np.ones(3), np.eye(3))
    text = program.to_svg()
    notes = [w for w in words(text) if "in blocks of" in w]
    assert notes == [w for w in notes if str(len(program)) in w] != []
    counted = sum(int(w.removeprefix("× ")) for w in words(text) if w.startswith("× "))
    others = sum(e.primitive == "literal" for e in program.equations)
    assert counted == len(program) - others
    assert len(text) < 100_000
    assert len(program.to_mermaid().splitlines()) < 1000
    everything = svg(program, limit=10_000)
    assert all(f"%{var} = " in everything for var in equations(program))


def test_programs_without_equations_inputs_or_outputs():
    for text in ("program() {\n return\n}", "program(%x: f64[]) {\n return %x\n}"):
        program = ct.Program.parse(text)
        ET.fromstring(program.to_svg())
        assert program.to_dot().endswith("}\n")
        assert program.to_mermaid().startswith("flowchart")
        assert program._repr_html_()


def hostile(name):
    program = ct.trace(lambda p: {name: np.sin(p[name]) * 2.0, "z": p["z"]}, {name: X, "z": X})
    _, back = ct.pullback(lambda p: {name: np.sin(p[name]) * p["z"]}, {name: X, "z": X})
    return program, back


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = set()
        self.attributes = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_cannot_break_out(name):
    harmless = Tags()
    harmless.feed(hostile("w")[1]._repr_html_())
    for thing in hostile(name):
        ET.fromstring(thing.to_svg().encode("utf-8"))
        tags = Tags()
        tags.feed(thing._repr_html_())
        assert tags.seen <= harmless.seen
        assert tags.attributes <= harmless.attributes | {"xml:space"}
        check_dot(thing.to_dot())
        check_mermaid(thing.to_mermaid())


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_text_with_any_name_reads_back(name):
    program, _ = hostile(name)
    again = ct.Program.parse(str(program))
    assert [v.name for v in again.inputs] == [v.name for v in program.inputs]
    assert [v.name for v in again.outputs] == [v.name for v in program.outputs]
    assert str(again) == str(program)


STRING = r'"(?:[^"\\\n]|\\.)*"'


def check_dot(text):
    """No line is anything but one of the statements that are written."""
    attribute = rf"\w+=(?:{STRING}|[\w.]+)"
    attributes = rf"{attribute}(?:, {attribute})*"
    statements = [
        r"digraph program \{",
        rf"(?:graph|node|edge) \[{attributes}\];",
        rf"subgraph cluster\w+ \{{(?: label={STRING};)?",
        rf"(?:{attribute}; ?)+",
        rf"n\d+_\d+ \[{attributes}\];",
        rf"n\d+_\d+ -> n\d+_\d+(?: \[{attributes}\])?;",
        r"\}",
        r"// .*",
        "",
    ]
    for line in text.split("\n"):
        assert any(re.fullmatch(s, line.strip(" ")) for s in statements), line


def check_mermaid(text):
    label = r'"(?:[\w .,()=]|#\d+;|<br/>)*"'
    statements = [
        "flowchart TD",
        rf"subgraph \w+\[{label}\]",
        rf"n\d+_\d+\[{label}\]",
        r"n\d+_\d+ (?:-->|-\.->) n\d+_\d+",
        r"classDef \w+ fill:#\w+,stroke:#\w+,color:#\w+",
        r"class [\w,]+ \w+",
        "end",
        "%% .*",
        "",
    ]
    for line in text.split("\n"):
        assert any(re.fullmatch(s, line.strip(" ")) for s in statements), line


def test_dot_and_mermaid(back):
    for text in (back.to_dot(), back.to_mermaid()):
        assert "matmul(" in text
        assert "one pass" in text
        assert "forward" in text
    check_dot(back.to_dot())
    check_mermaid(back.to_mermaid())


def test_svg_is_written_to_a_file(tmp_path, back):
    path = tmp_path / "größe.svg"
    assert back.to_svg(path) == path.read_text(encoding="utf-8")
    ET.parse(path)


def test_nothing_is_fetched(back):
    for text in (back._repr_svg_(), back._repr_html_()):
        assert re.findall(r"https?://[^\"\s]*", text) == ["http://www.w3.org/2000/svg"]
        assert "<script" not in text


def test_both_grounds_have_all_colours(back):
    light, _, dark = back.to_svg().partition("prefers-color-scheme:dark")
    for kind in ("input", "bound", "cotangent", "residual", "group", "never"):
        rule = rf"rect\.cotan-{kind}\{{fill:(#\w+)"
        assert re.search(rule, light)[1] != re.search(rule, dark)[1]


def test_equal_pictures_are_equal(back):
    assert back.to_svg() == back.to_svg()


def test_only_programs_and_pullbacks():
    with pytest.raises(TypeError, match="Program or a Pullback"):
        svg(np.ones(3))


# --------------------------------------------------------------------------------------------------
# Layout


def overlap(layout, sizes):
    boxes = [(x, y, x + w, y + h) for (x, y), (w, h) in zip(layout.corners, sizes, strict=True)]
    return [
        (i, j)
        for i, a in enumerate(boxes)
        for j, b in enumerate(boxes[:i])
        if a[0] < b[2] - 1e-6 and b[0] < a[2] - 1e-6 and a[1] < b[3] - 1e-6 and b[1] < a[3] - 1e-6
    ]


@pytest.mark.parametrize("upward", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_boxes_do_not_overlap_and_arrows_point_one_way(seed, upward):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    sizes = [(float(w), float(h)) for w, h in rng.uniform(20, 200, (count, 2))]
    arrows = sorted(
        {
            (int(a), int(b))
            for a, b in np.sort(rng.integers(0, count, (2 * count, 2)), axis=1)
            if a != b
        }
    )
    layout = layered(sizes, arrows, upward)
    assert overlap(layout, sizes) == []
    for (start, end), way in layout.ways.items():
        below = layout.corners[end][1] - layout.corners[start][1]
        assert (below < 0) == upward
        assert len(way) >= 2
    for (x, y), (w, h) in zip(layout.corners, sizes, strict=True):
        assert -1e-6 <= x <= layout.width - w + 1e-6
        assert -1e-6 <= y <= layout.height - h + 1e-6
