"""Paired experiments. `meor.study(...)` makes one."""

from meor.called import make_callable

make_callable(__name__)
