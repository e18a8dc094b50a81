"""The samplers: flat arrays of what is occupied, one file for each kernel, one chain around them."""
