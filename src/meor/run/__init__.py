"""One run on disk. `meor.run(...)` makes one."""

from meor.called import make_callable

make_callable(__name__)
