"""What an order posterior answers by sums over its support: edges, parent sets, orders."""
