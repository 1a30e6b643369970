"""How results are shown: values in, files out.

tables.py     what is shown, as values: tables, charts, sentences
charts.py     draws charts as SVG and PNG
html.py       the HTML report
scaling.py    throughput over processes, ours and as published, and what follows from it
parquet.py    rows as a file whose columns have types
publish.py    writes all of that beside the rows
docs_page.py  the documentation's page of the results kept in the repository
"""
