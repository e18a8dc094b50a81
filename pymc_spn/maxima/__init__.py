"""The most probable row: ascents from the best induced trees."""
