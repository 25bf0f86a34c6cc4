"""Pages that need nothing else: no network, no script."""
