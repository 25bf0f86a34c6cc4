"""Tables about streams and fleets."""
