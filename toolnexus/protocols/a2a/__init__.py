"""The A2A protocol, both sides of it: its types, spoken with the official SDK, stop here."""
