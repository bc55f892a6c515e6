"""Collections of small files written for the tests."""
