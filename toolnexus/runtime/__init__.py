"""The rail that every nested call rides, and what keeps it bounded."""
