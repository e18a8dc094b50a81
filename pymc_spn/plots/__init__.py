"""Drawings: matplotlib axes in, axes out."""
