"""How many examples a property draws that is too slow for the profile's own number: a share of it.

A pinned ``max_examples`` would ignore ``--hypothesis-profile=thorough``.
"""

from hypothesis import settings


def examples(number: int) -> settings:
    """``number`` examples under the default profile, and as many times more as another profile draws."""
    usual = settings.get_profile("default").max_examples
    return settings(max_examples=max(1, number * settings.default.max_examples // usual))
