"""The dashboard: pages for browsers, which show what the HTTP API tells. They ask nobody else."""
