"""A training job small enough to run anywhere, for demonstrations and tests."""
