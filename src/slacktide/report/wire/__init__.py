"""Results as data: the documented keys of `-o json`, and CSV lines. The keys are a promise to scripts."""
