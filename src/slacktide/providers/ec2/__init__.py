"""Machines of Amazon EC2.

Begin with `ec2`, the provider; `boot` is what an instance does by itself.
"""

from slacktide.providers.ec2.ec2 import Ec2

__all__ = ["Ec2"]
