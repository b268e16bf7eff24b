"""What a network is, networks made of layers, and networks of other libraries."""
