"""What a person looks at. `meor.report(...)` writes it."""

from meor.called import make_callable

make_callable(__name__)
