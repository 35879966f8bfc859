"""The compiled core of halfulp."""



def get_num_threads() -> int:
    """The number of threads that kernels use."""

def set_num_threads(count: int) -> None:
    """Set the number of threads; 0 leaves it to OpenMP."""

def available_isas() -> list[str]:
    """The instruction sets of this processor that kernels are compiled for."""

def get_isa() -> str:
    """The instruction set in use."""

def set_isa(name: str) -> None:
    """Force an instruction set; for tests."""
