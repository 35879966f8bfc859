"""The functional forms: the names, argument names and defaults of ``torch.nn.functional``, on NumPy arrays.

They are derived from the declarations beside the records; :func:`halfulp.functions` gives those of your own operators.
"""

from halfulp.functional._generated import *
from halfulp.functional._generated import __all__ as __all__
