"""Results as JSON (`-o json`) and CSV, under documented keys that scripts rely on."""
