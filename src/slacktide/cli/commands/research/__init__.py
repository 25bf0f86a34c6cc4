"""Commands about policies and what was learned about them."""
