"""Object stores on this machine: a real S3 server, and a proxy in front of it.

closes.py       a context manager that is closed at its end
program.py      a program of this folder as a child process
server.py       the S3 server
file_server.py  files over plain HTTP
faults.py       delays, limits and faults of a proxy; what it logs of a request
relay.py        the program of a proxy
proxy.py        a running proxy: its endpoint, its settings, its log
store.py        a bucket of a server that is asked through a proxy

Everything listens on 127.0.0.1 only.
"""
