"""The functional forms: the names, argument names and defaults of ``torch.nn.functional``, on NumPy arrays.

They are derived from the declarations beside the records; :func:`halfulp.functions` gives those of your own operators.
"""

from halfulp.functional import _generated
from halfulp.functional._generated import *

__all__: list[str] = []
__all__ += _generated.__all__
