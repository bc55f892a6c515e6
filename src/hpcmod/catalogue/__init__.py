"""What a site offers: publish, find, test, document and retire containers, in a directory on a shared file system."""
