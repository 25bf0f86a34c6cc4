"""The contracts of plug-ins (policies, providers, stores and so on), as checks that anyone can run."""

from slacktide.checks.allocators.allocator import (
    ALLOCATOR_CHECKS,
    SITE_CHECKS,
    check_allocator,
    stream_cases,
)
from slacktide.checks.allocators.site_cases import SiteCase, site_cases
from slacktide.checks.backend import BACKEND_CHECKS, check_backend
from slacktide.checks.base import CheckFailed
from slacktide.checks.cases import Case, cases
from slacktide.checks.forecaster import FORECASTER_CHECKS, check_forecaster
from slacktide.checks.policy import POLICY_CHECKS, check_policy
from slacktide.checks.price_feed import FEED_CHECKS, check_feed
from slacktide.checks.provider import PROVIDER_CHECKS, check_provider
from slacktide.checks.store import STORE_CHECKS, check_store

__all__ = [
    "ALLOCATOR_CHECKS",
    "BACKEND_CHECKS",
    "FEED_CHECKS",
    "FORECASTER_CHECKS",
    "POLICY_CHECKS",
    "PROVIDER_CHECKS",
    "SITE_CHECKS",
    "STORE_CHECKS",
    "Case",
    "CheckFailed",
    "SiteCase",
    "cases",
    "check_allocator",
    "check_backend",
    "check_feed",
    "check_forecaster",
    "check_policy",
    "check_provider",
    "check_store",
    "site_cases",
    "stream_cases",
]
