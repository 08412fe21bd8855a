"""Set-up: what a fresh clone needs, installed once and checked fast. Standard library only: no package exists yet."""
