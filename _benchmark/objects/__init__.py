"""Object stores on this machine: a real S3 server, and a proxy before it that is slow or at fault.

program.py      a program of this folder as a child process: its start, its questions, its end
server.py       the S3 server
file_server.py  files over plain HTTP
faults.py       what a proxy does wrong, to which requests; the requests that it has seen
relay.py        the program of a proxy
proxy.py        a proxy, as its user has it

Nothing here is imported by the library, and nothing here asks anything of another machine.
"""
