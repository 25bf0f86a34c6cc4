"""Many tasks, done here or elsewhere: in this process, in several processes, or on a Ray cluster."""
