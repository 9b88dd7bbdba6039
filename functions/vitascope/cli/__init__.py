"""The command `vitascope`: a client of the HTTP API, and the one-machine run."""
