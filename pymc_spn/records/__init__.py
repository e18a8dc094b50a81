"""What every family shares that is sampled: the record of its draws in a result, and the posterior that answers."""
