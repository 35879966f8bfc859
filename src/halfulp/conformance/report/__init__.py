"""The result of a campaign in every form: terminal, JSON, JUnit, HTML and Markdown."""

from halfulp.conformance.report.result import Reproducer, Result, SubjectResult

__all__ = ["Reproducer", "Result", "SubjectResult"]
