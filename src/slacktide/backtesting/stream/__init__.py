"""The back-test of a stream of jobs: event by event, or at once where jobs are independent."""
