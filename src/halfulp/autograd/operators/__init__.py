"""The operators that a network needs besides convolution and pooling, one family per file."""
