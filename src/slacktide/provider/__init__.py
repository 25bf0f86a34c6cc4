"""Machines: what rents them (`base`), who keeps account (`tickets`, `keeper`), a file for each cloud."""
