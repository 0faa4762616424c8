"""The exception for mistakes that the caller can correct."""


class Error(ValueError):
    """Says where the mistake is, what is wrong, and what to do about it.

    where: an argument or a file; remedy may be empty.
    """

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        super().__init__(where, problem, remedy)
        self.where = where
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f" ({self.remedy})" if self.remedy else "")


Error.__module__ = "poem"  # the name under which users know it
