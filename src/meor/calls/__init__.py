"""One function per command, for Python and notebooks: `meor.run`, `meor.audit`, `meor.study`, `meor.report`.

Each takes the options of its command as keywords, shows its progress on stderr, and leaves the same bytes.
"""
