"""One request in, one message out: the providers."""
