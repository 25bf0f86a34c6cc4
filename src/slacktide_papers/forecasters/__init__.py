"""Forecasters for experiments: the truth with noise of a known size, and ARIMA as the paper uses it.

Each is a plug-in by an entry point; begin with `noisy_truth`.
"""
