"""Tools that are HTTP requests.

`template` is where an argument goes into an address, `values` how it is written, `keys` what the host
alone gives, `exchange` one bounded request, `answers` what a model reads of it; `tool` puts these
together. `openapi`, beside this folder, makes such tools of a document.
"""
