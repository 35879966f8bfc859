"""Sound bounds: everything that a network can output on a box, in real numbers and in floating point."""

from halfulp.bounds._box import Box
from halfulp.bounds._certificate import Certificate
from halfulp.bounds._curves import clip, leaky_relu, softplus
from halfulp.bounds._network import Network, Node
from halfulp.bounds._property import Property, robust
from halfulp.bounds._radius import certified_radius
from halfulp.bounds._replay import replay
from halfulp.bounds._result import Bounds, Verdict
from halfulp.bounds._sources import from_torch, load, read_property
from halfulp.bounds._tracing import from_function
from halfulp.bounds._verify import bounds, verify

__all__ = [
    "Bounds",
    "Box",
    "Certificate",
    "Network",
    "Node",
    "Property",
    "Verdict",
    "bounds",
    "certified_radius",
    "clip",
    "from_function",
    "from_torch",
    "leaky_relu",
    "load",
    "read_property",
    "replay",
    "robust",
    "softplus",
    "verify",
]
