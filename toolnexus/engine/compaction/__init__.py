"""Long runs: what is sent of a transcript that has grown too long. The transcript itself stays whole."""
