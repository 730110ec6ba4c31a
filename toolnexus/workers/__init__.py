"""Workers: agents that live long and read messages from a bus: a second entry to the one core."""
