"""What numbers mean, as arithmetic: values in, values out.

advice.py  what bounds a stream, and what to do about it
mixing.py  how well an order mixes
"""
