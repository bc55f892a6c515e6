"""What a site offers: find, publish, change and retire containers, and describe them."""
