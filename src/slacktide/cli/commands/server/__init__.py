"""Commands that run a controller or a server, and say who may use it."""
