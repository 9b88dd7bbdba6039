"""Checks of what is asked for and of what was made."""
