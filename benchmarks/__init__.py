"""Side-by-side measurements; ``python -m benchmarks NAME`` runs the module of that name."""
