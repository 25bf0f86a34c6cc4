"""Workers on machines other than the controller's: an agent on each, and what the controller tells it."""
