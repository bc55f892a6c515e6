"""Facts about images and machines, and the rules that compare them."""
