"""Grade any implementation of convolution and pooling against the exact answer.

``halfulp check torch`` on the command line, or from Python:

>>> from halfulp.conformance import Plan, check
>>> check(["numpy-naive"], Plan(operators=("max_pool",), modes=("forward",), dtypes=("float32",), cases=8)).passed
True
"""

from halfulp.conformance.campaign import check
from halfulp.conformance.report.result import Demand, Result
from halfulp.conformance.subjects import SUBJECTS, Subject, SubjectError, Unsupported, load_subject
from halfulp.conformance.subjects.user import UserSubject
from halfulp.conformance.units import Plan

__all__ = [
    "SUBJECTS",
    "Demand",
    "Plan",
    "Result",
    "Subject",
    "SubjectError",
    "Unsupported",
    "UserSubject",
    "check",
    "load_subject",
]
