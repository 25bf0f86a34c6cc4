"""The verbs: typed requests in, typed results out; for the command line and Python users alike."""
