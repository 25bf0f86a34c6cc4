"""What is learned about a stream of jobs while it runs: arrival rates (`rates`) and job sizes (`sizes`)."""
