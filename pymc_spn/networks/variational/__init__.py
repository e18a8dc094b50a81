"""Collapsed variational Bayes: active trees, flows, coordinate ascent, empirical leaf priors."""
