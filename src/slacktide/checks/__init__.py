"""Contracts that ship with Slacktide: what every plug-in must satisfy, as checks anyone can run."""

from slacktide.checks.cases import Case, cases
from slacktide.checks.policy import POLICY_CHECKS, CheckFailed, check_policy

__all__ = ["POLICY_CHECKS", "Case", "CheckFailed", "cases", "check_policy"]
