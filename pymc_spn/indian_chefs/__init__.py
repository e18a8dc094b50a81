"""Graphs of unknown size: the Indian chefs process, its moves, its comparison priors."""
