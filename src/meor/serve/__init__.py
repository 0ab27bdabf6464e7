"""HTTP and the explorer."""
