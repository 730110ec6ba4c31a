"""Foreign protocols: the wire types of third parties stop in here."""
