"""The one-machine run: a real NATS server, a real S3 server and all other processes, run and stopped as one.

This package knows folders, ports, programs and processes. It knows nothing of jobs, stages or events.
"""
