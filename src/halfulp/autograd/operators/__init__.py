"""The other operators of a network, besides convolution and pooling, one family per file."""
