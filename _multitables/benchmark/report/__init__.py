"""How results are shown: values in, files out.

tables.py     what is shown, as values: tables, charts, sentences
headline.py   this library beside the others, in one table and one plot
charts.py     draws charts as SVG
html.py       the HTML report
parquet.py    rows as a file whose columns have types
publish.py    writes all of that beside the rows
"""
