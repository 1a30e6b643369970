"""Training batches, beside DataLoader over h5py and what people use besides.

study.py  its options
parts.py  what is compared with what, and what is wanted
"""
