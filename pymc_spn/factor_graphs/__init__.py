"""Factor graphs over discrete variables: junction trees, message kernels, fields inside PyMC models."""
