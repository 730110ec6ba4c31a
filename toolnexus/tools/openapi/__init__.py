"""Tools made of an OpenAPI document: one for each operation.

`read` gets the document, `document` follows its references, `schemas` says what a model is asked for,
`parameters` and `bodies` how a value is written, `servers` and `security` where requests go and what the
host must give, `operations` puts one operation together, `build` all of them; `source` is a URL's.
"""
