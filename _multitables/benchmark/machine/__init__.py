"""What is asked of the machine; nothing here knows who is measured.

environment.py     what the numbers were measured on
devices.py         what a file lies on, through partitions, mappings and RAID, and its name
mounts.py          the mount that holds a file
throttle.py        a slower device: the kernel's limit of what is read from one
io_mode.py         how a file is read, and what that asks of the page cache
page_cache.py      what of a file lies in it, forgetting and filling it, going around it
process_memory.py  peak memory, children, named shared memory
"""
