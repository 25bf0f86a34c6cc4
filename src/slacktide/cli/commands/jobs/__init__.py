"""Commands about one job: plan, run, submit, look, cancel, pay."""
