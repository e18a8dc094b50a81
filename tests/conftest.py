"""What holds for all tests: no time limit of an example, since first calls compile and machines are shared.

Properties try new examples in every run; where `CI` is set they try the same ones each time, so that a check which
passes today passes tomorrow.
"""

import os

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "untimed")
