"""What the logs of communication libraries say about the network of a run: rules as data, and the reader."""
