"""Reference media: read in a process that can do no harm.

`reader` starts that process for each file; `child` and what it imports run inside. The package's own modules are named
in full by those who use them, so that the child imports no more than it needs. `frames` reads back what the child made.
"""
