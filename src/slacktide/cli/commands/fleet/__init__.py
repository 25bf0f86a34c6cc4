"""Commands about fleets and streams of jobs."""
