"""The picture in docs/architecture.md, drawn from the graph that the program registers: `make diagram`."""
