"""Requests to addresses that strangers name: checked, pinned, bounded."""
