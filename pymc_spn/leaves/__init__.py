"""Leaf families, and the palette that gives each column its own."""
