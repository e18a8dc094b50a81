"""What holds for all tests: no time limit of an example, since first calls compile and machines are shared."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
