"""Inputs with a recorded digest of every output: the same bits on every machine and instruction set.

``python -m tests.corpus`` computes all outputs with the instruction set in use (``HALFULP_ISA``) and compares their
digests with ``digests.json``; ``--record`` writes that file. Nothing here needs pytest, and the inputs depend on no
generator of NumPy's and no libm, so that the same command runs under an emulator of another machine.
"""
