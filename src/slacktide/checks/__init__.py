"""Contracts that ship with Slacktide: what every plug-in must satisfy, as checks anyone can run."""

from slacktide.checks.cases import Case, cases
from slacktide.checks.forecaster import FORECASTER_CHECKS, check_forecaster
from slacktide.checks.policy import POLICY_CHECKS, CheckFailed, check_policy
from slacktide.checks.stream_policy import STREAM_POLICY_CHECKS, check_stream_policy, stream_cases

__all__ = [
    "FORECASTER_CHECKS",
    "POLICY_CHECKS",
    "STREAM_POLICY_CHECKS",
    "Case",
    "CheckFailed",
    "cases",
    "check_forecaster",
    "check_policy",
    "check_stream_policy",
    "stream_cases",
]
