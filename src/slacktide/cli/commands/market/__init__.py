"""Commands about markets."""
