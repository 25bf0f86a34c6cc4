"""Commands that run a controller or a server, and manage access to it."""
