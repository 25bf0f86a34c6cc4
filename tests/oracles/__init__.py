"""Second opinions: the solvers' problems solved another way, slowly, for tests and benchmarks only."""
