"""Reference media: read in a process that can do no harm."""
