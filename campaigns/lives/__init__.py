"""Random jobs, markets, fleets and requests, drawn by Hypothesis, for property tests and campaigns."""
