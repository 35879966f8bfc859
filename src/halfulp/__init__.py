"""Convolution and pooling with one right answer."""
