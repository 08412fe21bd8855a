"""What the benchmarks share, or is worth a test of its own."""
