"""Text of records is shown as it is, in Markdown as in HTML."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from framebench.analysis.rendering import Table
from framebench.publish.site.markup import escape_markdown, find_order, flatten, make_table
from tests.pages import EVIL, needs_sphinx

# characters and words that mean something in CommonMark, or to MyST or Sphinx
MARKS = [
    "`",
    "```",
    "~~~",
    ":::",
    "{",
    "}",
    "{raw}",
    "{{",
    "7",
    "*",
    "7",
    "}}",
    "[",
    "](",
    ")",
    "<b>",
    "&lt;",
    "|",
    "*",
    "_",
    "#",
    "1.",
    "-",
    "+",
    ">",
    "---",
    "===",
    "$",
    "$$",
    "\\",
    "!",
    "%",
    "(x)=",
    "'",
    '"',
    "https://elsewhere.invalid",
    "a",
] + ["\n", "\n\n", "    ", "\t", " "]
TEXTS = st.text(max_size=40) | st.lists(st.sampled_from(MARKS), max_size=12).map("".join)


@settings(deadline=None)  # other programs may take the processor
@given(TEXTS)
def test_a_paragraph_begins_no_block(text):
    tokens = MarkdownIt("commonmark").parse(f"{escape_markdown(text)}\n")

    kinds = {token.type for token in tokens}
    assert kinds <= {"paragraph_open", "inline", "paragraph_close"}


@pytest.mark.parametrize("place", ["title", "caption", "head", "cell", "note"])
def test_a_table_escapes_every_part(place):
    parts = {name: "plain" for name in ("title", "caption", "head", "cell", "note")} | {place: EVIL}
    table = Table.of_text(
        parts["title"],
        parts["caption"],
        ("what", parts["head"]),
        [("one", parts["cell"])],
        notes=(parts["note"],),
    )

    html = str(make_table(table, ""))

    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.5 tokens/s", 1234.5),
        ("~1.23", 1.23),
        ("+4.5%", 4.5),
        ("-4.5%", -4.5),
        ("1.23 (1.19 to 1.27)", 1.23),
        ("oom", 1e308),  # what has no number comes last
    ],
)
def test_a_column_is_sorted_by_the_first_number_of_a_cell(text, number):
    assert float(find_order(text)) == number


@needs_sphinx
@settings(deadline=None)  # other programs may take the processor
@given(TEXTS)
def test_a_heading_means_nothing_to_the_parser_of_the_site(text):
    """MyST adds roles, targets, comments and footnotes to CommonMark."""
    from markdown_it.renderer import RendererHTML
    from myst_parser.config.main import MdParserConfig
    from myst_parser.parsers.mdit import create_md_parser

    parser = create_md_parser(MdParserConfig(), RendererHTML)
    tokens = parser.parse(f"## {escape_markdown(text)}\n")

    assert [token.type for token in tokens] == ["heading_open", "inline", "heading_close"]
    children = tokens[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children) == flatten(text)
