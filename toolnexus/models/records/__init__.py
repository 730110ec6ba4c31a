"""Records of runs: what models were asked and what they said, to be played again without them.

Above: `toolnexus.testing`, the command line. Below: the model port.
"""
