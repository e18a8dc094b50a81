"""The Indian chefs process: graphs of unknown size, and belief networks on them."""
