"""Commands about one job, from `init` and `plan` over `run` to its bill, `cost`."""
