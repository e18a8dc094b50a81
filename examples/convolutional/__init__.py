"""Convolutional networks over graphs of unknown size: the example of section 4.2 of the paper."""
