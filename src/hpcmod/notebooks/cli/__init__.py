"""The commands for notebooks and editors: jupyter, kernel, code."""
