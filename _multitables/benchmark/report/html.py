"""The HTML report: every view of every study of a directory in one file that needs no other.

Law
---
1. Pure: sections and the drawn charts in, text out.
2. The page loads nothing: styles and plots are inside, and there is no script.
3. The same input gives the same text; it does not say when it was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from _multitables.benchmark.report import charts
from _multitables.benchmark.report.tables import Section, Table, View, file_stem

CSS = """
:root { color-scheme: light dark; --ink: #24292f; --faint: #59636e; --line: #d8dee4;
  --paper: #ffffff; --card: #f6f8fa; --pale: #a8b3bf; --link: #0550ae; --bad: #b32318;
  --good: #146c2e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9aa4af; --line: #343b44;
  --paper: #0f141a; --card: #171d25; --pale: #66707b; --link: #79b8ff; --bad: #ff8a80;
  --good: #7ee29a; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
body { margin: 0; color: var(--ink); background: var(--paper);
  font: 15px/1.55 system-ui, "DejaVu Sans", sans-serif; }
.frame { display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 3rem;
  max-width: 88rem; margin: 0 auto; padding: 2.5rem 2rem 5rem; }
nav { position: sticky; top: 2.5rem; align-self: start; max-height: calc(100vh - 4rem);
  overflow: auto; font-size: 13.5px; line-height: 1.4; }
nav ol { list-style: none; margin: 0; padding: 0; }
nav ol ol { margin: .15rem 0 .9rem; padding-left: .9rem; border-left: 1px solid var(--line); }
nav li { margin: .3rem 0; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
nav ol ol a { color: var(--faint); }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.5rem; margin: 3.5rem 0 .4rem; padding-top: 1.2rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.15rem; margin: 2.6rem 0 .6rem; }
p { margin: .5rem 0; max-width: 48rem; }
.lead { color: var(--faint); font-size: 1.05rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1.4rem;
  margin: 1rem 0; padding: 1rem 1.2rem; background: var(--card); border-radius: 8px;
  font-size: 13.5px; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
ul.said { margin: 1rem 0; padding-left: 1.2rem; max-width: 56rem; }
ul.said li { margin: .3rem 0; }
figure { margin: 1.4rem 0 2rem; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
figcaption small { display: block; font-weight: 400; color: var(--faint); }
figure.plot { max-width: 47rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit !important; }
.table { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px;
  width: fit-content; max-width: 100%; }
table { border-collapse: separate; border-spacing: 0; font-size: 13.5px; }
th, td { padding: .4rem .7rem; text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; border-bottom: 1px solid var(--line); }
tr:last-child > * { border-bottom: 0; }
thead th { background: var(--card); font-weight: 600; white-space: normal;
  vertical-align: bottom; }
tbody th { position: sticky; left: 0; z-index: 1; background: var(--paper); font-weight: 400;
  white-space: normal; min-width: min-content; max-width: 22rem; }
thead th:first-child { position: sticky; left: 0; z-index: 2; }
th:first-child, .left { text-align: left; }
td.long { white-space: normal; min-width: 14rem; max-width: 32rem; }
tbody tr:hover > * { background: var(--card); }
tbody th, td { vertical-align: top; }
td small { display: block; color: var(--faint); font-size: 11.5px; }
.bad { color: var(--bad); font-weight: 600; }
.good { color: var(--good); }
.none { color: var(--faint); }
@media (max-width: 60rem) { .frame { display: block; padding: 1.5rem 1rem; }
  nav { position: static; max-height: none; margin-bottom: 2rem; } }
@media print { :root { color-scheme: light; --ink: #000; --faint: #444; --line: #bbb;
    --paper: #fff; --card: #fff; --pale: #a8b3bf; }
  nav { display: none; } .frame { display: block; padding: 0; max-width: none; }
  .table { overflow: visible; } table { font-size: 9pt; } th, td { padding: .2rem .35rem; }
  td small { font-size: 7.5pt; } tbody th, thead th:first-child { position: static; }
  figure, tr { break-inside: avoid; } h2, h3, figcaption { break-after: avoid; }
  section { margin: 0; } figure.plot { max-width: 34rem; } }
"""

MAX_LETTERS = 28  # of a word in a column that is not broken into lines
TITLE = "multitables benchmark"
LEAD = (
    "MB/s are 10<sup>6</sup> bytes of decoded data per second. A number is the median of its "
    "repeats, with minimum and maximum behind it, and as bars in the plots. The data behind every "
    "number were checked in the same run."
)
#: what a cell says -> how it looks; the word is there in any case
LOOKS = {
    "FAILED": "bad",
    "MISSED": "bad",
    "met": "good",
    "-": "none",
    "not measured": "none",
    "not judged": "none",
}
#: colours of a drawing -> the page's own, which follow the reader's choice of light or dark
INKS = {
    charts.INK: "ink",
    charts.FAINT: "faint",
    charts.GRID: "line",
    charts.PAPER: "paper",
    charts.PALE: "pale",
}


def document(sections: Sequence[Section], drawings: Mapping[str, str]) -> str:
    """The page; `drawings` has the SVG of each chart by name, as far as it could be drawn."""
    contents = "\n".join(_contents(sections))
    main = "\n".join(line for section in sections for line in _section(section, drawings))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{TITLE}</title>
<style>{CSS}</style>
</head>
<body>
<div class="frame">
{contents}
<main>
<h1>{TITLE}</h1>
<p class="lead">{LEAD}</p>
{main}
</main>
</div>
</body>
</html>
"""


def _anchor(*words: str) -> str:
    return file_stem(*words).replace("_", "-")


def _contents(sections: Sequence[Section]) -> Iterator[str]:
    yield '<nav aria-label="Contents"><ol>'
    for section in sections:
        name = section.kept.name
        yield f'<li><a href="#{_anchor(name)}">{escape(section.title)}</a><ol>'
        for view in section.views:
            anchor = _anchor(name, view.heading)
            yield f'<li><a href="#{anchor}">{escape(view.heading)}</a></li>'
        yield "</ol></li>"
    yield "</ol></nav>"


def _section(section: Section, drawings: Mapping[str, str]) -> Iterator[str]:
    name = section.kept.name
    yield "<section>"
    yield f'<h2 id="{_anchor(name)}">{escape(section.title)}</h2>'
    yield f'<p class="lead">{escape(section.summary)}</p>'
    if section.kept.more.get("interrupted"):
        yield '<p class="bad">This run was interrupted. What it had finished is here.</p>'
    for view in section.views:
        yield f'<h3 id="{_anchor(name, view.heading)}">{escape(view.heading)}</h3>'
        yield from body(view, drawings)
    yield from facts(section.facts)
    yield "</section>"


def body(view: View, drawings: Mapping[str, str]) -> Iterator[str]:
    """What a view has below its heading; also for a page that is not this one."""
    if view.sentences:
        yield '<ul class="said">'
        yield from (f"<li>{escape(sentence)}</li>" for sentence in view.sentences)
        yield "</ul>"
    for chart in view.charts:
        if chart.name in drawings:
            yield f'<figure class="plot">{_inline(chart.name, drawings[chart.name])}</figure>'
    for table in view.tables:
        yield from _table(table)
    yield from facts(view.facts)


def facts(found: Mapping[str, str]) -> Iterator[str]:
    """The machine, which stands behind its numbers."""
    if found:
        yield "<dl>"
        yield from (
            f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(text)}</dd>"
            for name, text in found.items()
        )
        yield "</dl>"


def _table(table: Table) -> Iterator[str]:
    title, _, rest = table.title.partition("; ")
    more = f"<small>{escape(rest)}</small>" if rest else ""
    yield f"<figure><figcaption>{escape(title)}{more}</figcaption>"
    yield '<div class="table" tabindex="0"><table><thead><tr>'
    places = {
        name: _place([row[column] for row in table.rows])
        for column, name in enumerate(table.header)
        if name in table.left
    }
    for name in table.header:
        left = ' class="left"' if name in places else ""
        yield f'<th scope="col"{left}>{escape(name)}</th>'
    yield "</tr></thead><tbody>"
    for row in table.rows:
        yield f'<tr><th scope="row">{escape(row[0])}</th>'
        for name, text in zip(table.header[1:], row[1:], strict=True):
            yield _cell(text, places.get(name, ""))
        yield "</tr>"
    yield "</tbody></table></div></figure>"


def _place(words: Sequence[str]) -> str:
    """The classes of a column of words: long ones may be broken into lines."""
    return "left long" if max(map(len, words), default=0) > MAX_LETTERS else "left"


def _cell(text: str, place: str) -> str:
    classes = " ".join(filter(None, [place, LOOKS.get(text, "")]))
    said = f' class="{classes}"' if classes else ""
    spread = re.fullmatch(r"(\S+) (\([^()]*\))(.*)", text) if "left" not in place else None
    if spread is None:
        return f"<td{said}>{escape(text)}</td>"
    median, between, unit = map(escape, spread.groups())
    return f"<td{said}>{median} <small>{between}</small>{unit}</td>"


def _inline(name: str, svg: str) -> str:
    """A drawing as a part of the page: names that are its own, and the page's colours."""
    inside = svg[svg.index("<svg") :]
    inside = re.sub(r"\s*<metadata>.*?</metadata>", "", inside, flags=re.DOTALL)
    inside = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", inside)
    for colour, variable in INKS.items():
        inside = inside.replace(colour, f"var(--{variable})")
    return inside.replace("<svg ", '<svg role="img" ', 1)
