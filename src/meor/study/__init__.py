"""Paired experiments: a plan, its runs, and what they show."""
