"""The HTTP API: verbs of `app` behind a gate. Its libraries come with the extra `serve`."""
