"""Commands about machines, back ends and providers."""
