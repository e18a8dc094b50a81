"""The Bayesian sum-product network: distribution, samplers, variational fit, recorded draws, step methods."""
