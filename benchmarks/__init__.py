"""Timings, each as the ratio of two things measured in one run. `make bench` runs them all."""
