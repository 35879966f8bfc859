"""Hypothesis profiles: the default fits in a few minutes; ``--hypothesis-profile=thorough`` draws a million cases.

A case of the pooling kernels is one array, compared forward, with indices, under JVP and under VJP: more than
22,000 of them by default, more than 1,100,000 when thorough.

The default draws the same cases for the same tree, so that the gate gives one answer; the thorough profile draws anew.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=10_000, derandomize=False)
settings.register_profile("quick", settings.get_profile("default"), max_examples=50)
settings.load_profile("default")
