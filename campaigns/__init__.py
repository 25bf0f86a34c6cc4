"""Campaigns: seeded, counted attacks on the live engine, which stop at the first thing that is not so."""
