"""Objects of a store, read over a network that waits before each answer, beside h5py and obstore.

study.py  its options, the server and the proxy
parts.py  whole datasets, batches, opening, shots
"""
