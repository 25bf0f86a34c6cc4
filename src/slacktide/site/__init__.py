"""What all jobs of a run share: a market clock, the tapes of its pools, spot, and machines."""
