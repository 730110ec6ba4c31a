"""The one execution core."""
