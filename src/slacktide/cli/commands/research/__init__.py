"""Commands about policies and what is learned of them."""
