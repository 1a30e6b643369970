"""Virtual datasets: their sources, and where in these the elements lie."""
